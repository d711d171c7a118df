import { domainToASCII } from 'node:url'
import { findLocale } from '../../client/src/currency.ts'
import { type DatabaseAddresses, roleOf } from '../db/addresses.ts'
import { isLanguage, isLanguageTag, LANGUAGES, type Language, languageOf } from '../language.ts'
import { findTimeZone } from '../shop-time.ts'
import type { Settings } from './settings.ts'

const DEFAULT_SENDER = 'Storefront <no-reply@storefront.example>'
const SENDER = /^(?:[^<>\r\n]*<[^\s<>@]+@[A-Za-z0-9.-]+>|[^\s<>@]+@[A-Za-z0-9.-]+)$/

/**
 * Reads a sender, and converts its domain to ASCII (IDNA, RFC 5891) like in the envelope and in `Message-ID`. Undefined
 * if it is not an address.
 */
function toSender(value: string): string | undefined {
  const sender = value.replace(/(?<=@)[^\s<>@]*[\u0080-\u{10ffff}][^\s<>@]*(?=>?$)/u, (domain) => domainToASCII(domain))
  return SENDER.test(sender) ? sender : undefined
}

export function readMailFrom({ setting }: Settings): string {
  const mustBe = 'an e-mail address, such as Store <no-reply@store.example>'
  return setting('MAIL_FROM', { mustBe, parse: toSender }, { value: DEFAULT_SENDER, documented: DEFAULT_SENDER })
}

/** The shop's name and contact, for mails and the order page. A property is null if it is not set. */
export interface Shop {
  name: string | null
  logoUrl: string | null
  /** The buttons' colour, such as `#0b5394`. */
  color: string
  contact: string | null
}

export function readShop({ setting }: Settings, mailFrom: string): Shop {
  const oneLine = (max: number) => ({
    mustBe: `a line of at most ${max} characters`,
    parse: (value: string) => (value.trim() !== '' && value.length <= max && !/\p{C}/u.test(value) ? value.trim() : undefined),
  })
  const toColor = (value: string) => (/^#[0-9A-Fa-f]{6}$/.test(value) ? value.toLowerCase() : undefined)
  const name = { value: senderNameOf(mailFrom), documented: 'the name in MAIL_FROM', from: 'MAIL_FROM' }
  return {
    name: setting<string | null>('SHOP_NAME', oneLine(80), name),
    logoUrl: setting<string | null>(
      'SHOP_LOGO_URL',
      // Every customer gets this URL, so it must contain no credentials.
      { mustBe: 'a URL that starts with https:// or http:// and has no credentials', parse: parseOpenUrl, secrecy: 'url' },
      { value: null, documented: 'none' },
    ),
    color: setting('SHOP_COLOR', { mustBe: 'a colour such as #0b5394', parse: toColor }, { value: '#0b5394', documented: '#0b5394' }),
    contact: setting<string | null>('SHOP_CONTACT', oneLine(200), { value: null, documented: 'none' }),
  }
}

function senderNameOf(from: string): string | null {
  const name =
    /^(.*)<[^<>]*>\s*$/
      .exec(from)?.[1]
      ?.trim()
      .replace(/^"(.*)"$/, '$1') ?? ''
  return name === '' ? null : name
}

export function readMailReplyTo({ setting }: Settings): string | null {
  const mustBe = 'an e-mail address, such as Store <help@store.example>'
  return setting('MAIL_REPLY_TO', { mustBe, parse: toSender }, { value: null, documented: 'none: answers go to MAIL_FROM' })
}

const MAX_STAFF_ADDRESSES = 10

/** Reads the settings of mails to the staff. The result is null if the staff gets no mails. */
export function readStaffMails({ setting, oneOf }: Settings, defaultLanguage: Language) {
  const to = setting<readonly string[] | null>(
    'STAFF_MAIL',
    {
      mustBe: `one to ${MAX_STAFF_ADDRESSES} e-mail addresses, such as orders@store.example, separated by commas`,
      parse: parseStaffAddresses,
    },
    { value: null, documented: 'none: the staff gets no mails' },
  )
  const orders = oneOf('STAFF_MAIL_ORDERS', ['at_once', 'hourly', 'never'], 'at_once')
  const parse = (value: string) => (isLanguage(value) ? value : undefined)
  const unset = { value: defaultLanguage, documented: 'that of DEFAULT_LANGUAGE' }
  const language = setting<Language>('STAFF_MAIL_LANGUAGE', { mustBe: `one of ${LANGUAGES.join(', ')}`, parse }, unset)
  return to === null ? null : Object.freeze({ to, orders, language })
}

function parseStaffAddresses(text: string): string[] | undefined {
  const addresses = new Set(text.split(',').map((part) => toSender(part.trim()) ?? '<'))
  return addresses.size <= MAX_STAFF_ADDRESSES && [...addresses].every((address) => !address.includes('<')) ? [...addresses] : undefined
}

export function readMailEventsSecret({ setting }: Settings): string | null {
  const parse = (value: string) =>
    /^whsec_(?:[A-Za-z0-9+/]{4}){6,22}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value) ? value : undefined
  const mustBe = 'whsec_ and 18 to 66 bytes in base64'
  return setting('MAIL_EVENTS_SECRET', { mustBe, parse, secrecy: 'secret' }, { value: null, documented: 'none: no reports are accepted' })
}

/** Headers that a mail already has, or that change its delivery. */
const TAKEN_HEADERS =
  /^(?:from|to|cc|bcc|sender|reply-to|return-path|subject|date|message-id|in-reply-to|references|received|content-.*|mime-version|auto-submitted|list-.*|x-storefront-event|dkim-signature|resent-.*)$/i

export function readHeaderName({ setting }: Settings): string | null {
  const parse = (value: string) => (/^[A-Za-z][A-Za-z0-9-]{0,59}$/.test(value) && !TAKEN_HEADERS.test(value) ? value : undefined)
  const mustBe = 'the name of a header of the mail provider, such as Resend-Idempotency-Key'
  return setting('MAIL_IDEMPOTENCY_HEADER', { mustBe, parse }, { value: null, documented: '' })
}

export function readLocale({ setting }: Settings): string | null {
  const parse = (value: string) => findLocale(value) ?? undefined
  const unset = { value: null, documented: "as usual in the mail's language" }
  return setting('MAIL_LOCALE', { mustBe: 'a language tag such as en, de-AT or fr', parse }, unset)
}

export function readTimeZone({ setting }: Settings): string {
  const parse = (value: string) => findTimeZone(value) ?? undefined
  const mustBe = 'a time zone of the IANA database such as Europe/Vienna, and no number of hours'
  return setting('SHOP_TIME_ZONE', { mustBe, parse }, { value: 'UTC', documented: 'UTC' })
}

/**
 * Reads the default language. It is derived from the older MAIL_LOCALE, so a shop with Austrian amounts has German
 * mails.
 */
export function readDefaultLanguage({ setting }: Settings, mailLocale: string | null): Language {
  const derived = mailLocale === null ? null : languageOf(mailLocale)
  const parse = (value: string) => (isLanguage(value) ? value : undefined)
  const unset = { value: derived ?? 'en', documented: 'the language of MAIL_LOCALE, or en', from: derived && 'MAIL_LOCALE' } as const
  return setting<Language>('DEFAULT_LANGUAGE', { mustBe: `one of ${LANGUAGES.join(', ')}`, parse }, unset)
}

export function readCatalogueLanguage({ setting, isSet }: Settings, defaultLanguage: Language): string {
  const parse = (value: string) => (isLanguageTag(value) ? value : undefined)
  const from = isSet('DEFAULT_LANGUAGE') ? 'DEFAULT_LANGUAGE' : null
  const unset = { value: defaultLanguage, documented: 'that of DEFAULT_LANGUAGE', from }
  return setting<string>('CATALOGUE_LANGUAGE', { mustBe: 'a language tag in canonical form such as en, pt-BR or zh-Hant', parse }, unset)
}

/** Reads the NATS settings. The result is null without `NATS_URL`, and unset paths are null. */
export function readNats({ optional, oneOf, setting, isSet, problems }: Settings) {
  const servers = setting(
    'NATS_URL',
    { mustBe: 'URLs that start with nats:// or tls://, separated by commas', parse: parseServers, secrecy: 'url' },
    { value: null, documented: 'the topic is a table' },
  )
  const files = {
    credentialsFile: optional('NATS_CREDENTIALS', 'a file of credentials (JWT and NKey)'),
    caFile: optional('NATS_CA', 'a PEM file'),
    certFile: optional('NATS_CERT', 'a PEM file'),
    keyFile: optional('NATS_KEY', 'a PEM file'),
  }
  // An even number survives the loss of no more servers than the odd number below it.
  const replicas = Number(oneOf('NATS_REPLICAS', ['1', '3', '5'], '1'))
  if (isSet('NATS_URL') && isSet('NATS_CERT') !== isSet('NATS_KEY')) problems.push('NATS_CERT and NATS_KEY must be set together')
  // A login in one server's address is used for all servers.
  return servers === null ? null : Object.freeze({ servers, replicas, ...files })
}

function parseServers(text: string): string | undefined {
  const isAddress = (server: string) =>
    URL.canParse(server) && ['nats:', 'tls:'].includes(new URL(server).protocol) && new URL(server).host !== ''
  return text.split(',').every((server) => isAddress(server.trim())) ? text : undefined
}

const PROTOCOLS = ['postgres:', 'postgresql:']

/**
 * Reads the database addresses. The result is null for the embedded database. The default of each address is
 * `DATABASE_URL`.
 */
export function readDatabaseAddresses(settings: Settings): DatabaseAddresses | null {
  const { isSet, problems } = settings
  const api = settings.url('DATABASE_URL', PROTOCOLS, 'the embedded PostgreSQL')
  const unset = { value: api, documented: 'DATABASE_URL', from: api && 'DATABASE_URL' }
  const others = {
    DATABASE_STREAM_URL: settings.url('DATABASE_STREAM_URL', PROTOCOLS, unset),
    DATABASE_OWNER_URL: settings.url('DATABASE_OWNER_URL', PROTOCOLS, unset),
  }
  for (const [name, value] of Object.entries(others)) {
    if (!isSet(name)) continue
    if (!isSet('DATABASE_URL')) problems.push(`${name} goes with DATABASE_URL, which is not set`)
    if (api === null || value === null) continue
    // `storefront migrate` grants rights to the role in an address, so the address must name it.
    if (roleOf(api) === '' || roleOf(value) === '') problems.push(`with ${name}, it and DATABASE_URL must each name their role`)
    if (databaseOf(api) !== databaseOf(value)) problems.push(`${name} must be an address of the database in DATABASE_URL`)
  }
  const { DATABASE_STREAM_URL: stream, DATABASE_OWNER_URL: owner } = others
  return api === null ? null : { api, stream: stream ?? api, owner: owner ?? api }
}

function databaseOf(url: string): string {
  return new URL(url).pathname
}

const LAKE_URL = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9!_.'()=/-]*))?$/

/**
 * Reads the lake's bucket; null without `LAKE_URL`. AWS's SDK reads the credentials itself. Without an `endpoint` the
 * bucket is at AWS, and without a `region` the SDK finds it.
 */
export function readLakeBucket({ setting, isSet, problems }: Settings) {
  const place = setting(
    'LAKE_URL',
    // A refused address is not shown, because it may contain a key.
    {
      mustBe: 'an address such as s3://bucket/prefix, with letters, digits and - _ . = in the prefix',
      parse: parseLakeUrl,
      secrecy: 'url',
    },
    { value: null, documented: 'files in DATA_DIR' },
  )
  const endpoint = setting(
    'S3_ENDPOINT',
    { mustBe: 'a URL that starts with http:// or https:// and has no credentials', parse: parseOpenUrl, secrecy: 'url' },
    { value: null, documented: 'that of AWS' },
  )
  // Most servers other than AWS ignore the region, but the signature must name one.
  const derived = endpoint === null ? null : 'us-east-1'
  const region = setting<string | null>(
    'AWS_REGION',
    { mustBe: 'a region such as eu-central-1', parse: (text) => text },
    { value: derived, documented: "as AWS's SDK finds it (us-east-1 with S3_ENDPOINT)", from: derived && 'S3_ENDPOINT' },
  )
  if (isSet('S3_ENDPOINT') && !isSet('LAKE_URL')) problems.push('S3_ENDPOINT needs LAKE_URL, such as s3://bucket/prefix')
  return place === null ? null : Object.freeze({ ...place, endpoint, region })
}

function parseLakeUrl(text: string) {
  const [, bucket, path = ''] = LAKE_URL.exec(text) ?? []
  const prefix = path.replace(/\/+$/, '')
  return bucket === undefined || /^\/|\/\/|(^|\/)\.\.?(\/|$)/.test(prefix) ? undefined : { bucket, prefix }
}

function parseOpenUrl(text: string) {
  const url = URL.canParse(text) ? new URL(text) : null
  return url !== null && ['http:', 'https:'].includes(url.protocol) && url.username + url.password === '' ? text : undefined
}

/** The variables for AWS's SDK: the region, credentials and certificate authorities. */
export function readObjectStoreEnvironment({ optional, isSet }: Settings, env: NodeJS.ProcessEnv): Record<string, string> {
  // The store has no list of the SDK's variables, so only those that are set count as known.
  const names = Object.keys(env).filter((name) => name.startsWith('AWS_') && name !== 'AWS_REGION')
  if (isSet('LAKE_URL')) for (const name of names) optional(name, "as AWS's SDK documents it", '', 'secret')
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] =>
      /^(?:AWS_\w+|HOME|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR))$/.test(entry[0]),
    ),
  )
}

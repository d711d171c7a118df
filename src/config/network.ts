import { isIP } from 'node:net'
import type { Settings } from './settings.ts'

const MAX_PROXIES = 10
const MAX_PORT = 65_535

export function readTrustProxy({ setting }: Settings): readonly string[] | number | false {
  const parse = (value: string) => {
    if (/^\d+$/.test(value) && Number(value) >= 1 && Number(value) <= MAX_PROXIES) return Number(value)
    const networks = value.split(',').map((network) => network.trim())
    return networks.every(isNetwork) ? networks : undefined
  }
  const mustBe = `addresses and networks such as 10.0.0.0/8, separated by commas, or a number of proxies from 1 to ${MAX_PROXIES}`
  return setting<readonly string[] | number>('TRUST_PROXY', { mustBe, parse }, { value: null, documented: 'none' }) ?? false
}

function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
  return (
    rest.length === 0 && bits > 0 && (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) >= 1 && Number(prefix) <= bits))
  )
}

export function isOfThisMachine(...hosts: string[]): boolean {
  return hosts.every((host) => /^(localhost|127(\.\d+){3}|\[?::1\]?)$/i.test(host) || host.toLowerCase().endsWith('.localhost'))
}

export function readAllowedHosts({ setting }: Settings): readonly string[] {
  const parse = (value: string) => {
    const hosts = value.split(',').map((host) => host.trim().toLowerCase())
    return hosts.every((host) => /^[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?$/.test(host)) ? hosts : undefined
  }
  return setting<readonly string[]>(
    'ALLOWED_HOSTS',
    { mustBe: 'names such as api-1, separated by commas, without ports', parse },
    { value: [], documented: 'none' },
  )
}

export function readCorsOrigins({ setting }: Settings): readonly string[] | '*' | null {
  const parse = (value: string) => {
    if (value === '*') return value
    // People copy the slash that a browser's address bar shows after the host.
    const origins = value.split(',').map((origin) => origin.trim().replace(/(?<=[^/])\/$/, ''))
    return origins.every(isOrigin) ? origins : undefined
  }
  const mustBe = '*, or origins such as https://shop.example, separated by commas'
  return setting<readonly string[] | '*'>('CORS_ORIGINS', { mustBe, parse, secrecy: 'url' }, { value: null, documented: '' })
}

/**
 * Whether the text is an origin as browsers send it: without a path or default port, in lower case. Apps have their own
 * schemes.
 */
function isOrigin(text: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^/?#@*\s]+$/.test(text) || !URL.canParse(text)) return false
  const { origin } = new URL(text)
  return origin === text || (origin === 'null' && !text.startsWith('http'))
}

const SLUG = '{slug}'
const LANG = '{lang}'

export function readProductUrl({ setting }: Settings): string | null {
  const parse = (value: string) => (isProductUrl(value) ? value : undefined)
  const mustBe = `a URL that starts with https:// or http://, with ${SLUG} and perhaps ${LANG} behind the host and without credentials`
  return setting('SHOP_PRODUCT_URL', { mustBe, parse, secrecy: 'url' }, { value: null, documented: '' })
}

function isProductUrl(text: string): boolean {
  const filled = text.replaceAll(SLUG, 'slug').replaceAll(LANG, 'en')
  if (!text.includes(SLUG) || /[{}\s\p{Cc}<>"]/u.test(filled) || !/^https?:\/\//i.test(filled) || !URL.canParse(filled)) return false
  const { origin, username, password } = new URL(filled)
  // The host ends before the first slash, question mark or number sign after the scheme.
  const host = /^https?:\/\/[^/?#\\]+/i.exec(text)?.[0] ?? text
  return username + password === '' && origin !== 'null' && !host.includes('{')
}

const CACHES = ['varnish:', 'fastly:', 'cloudflare:']

export function readPurgeUrls({ setting }: Settings): readonly string[] {
  const parse = (value: string) => {
    const urls = value.split(',').flatMap((url) => url.trim() || [])
    return urls.every(isCache) ? urls : undefined
  }
  const mustBe = 'varnish://host:port, fastly://:token@service or cloudflare://:token@zone, or several, separated by commas'
  return setting<readonly string[]>('CDN_PURGE_URL', { mustBe, parse, secrecy: 'url' }, { value: [], documented: '' })
}

function isCache(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, password } = new URL(text)
  return CACHES.includes(protocol) && hostname !== '' && (protocol === 'varnish:' || password !== '')
}

export function readOperations({ setting, text, isSet }: Settings) {
  const parse = (value: string) =>
    value === 'off' ? value : /^\d{1,5}$/.test(value) && Number(value) <= MAX_PORT ? Number(value) : undefined
  const kind = { mustBe: `off or a whole number from 0 to ${MAX_PORT}`, parse }
  const port = setting<number | 'off'>('OPS_PORT', kind, { value: 9464, documented: '9464' })
  const host = text('OPS_HOST', 'localhost', 'an address or a name of this machine')
  // If OPS_PORT is set, the process refuses to start without the port.
  return port === 'off' ? null : { host, port, isRequired: isSet('OPS_PORT') }
}

import { OperatorError } from '../errors.ts'

/** The message names each setting with its expected value. The exit status is 2. */
export class ConfigError extends OperatorError {
  override readonly name = 'ConfigError'
  override readonly exitStatus = 2
}

/** How a value is shown. `url` means an address without its login. A refused address is never shown. */
type Secrecy = 'none' | 'url' | 'secret'

export interface Kind<T> {
  /** Completes `NAME must be …`. */
  mustBe: string
  parse: (text: string) => T | undefined
  secrecy?: Secrecy
}

export interface Unset<T> {
  value: T
  /** The default that `storefront config` shows if `value` is null. */
  documented: string
  from?: string | null
}

export interface ReadSetting {
  name: string
  mustBe: string
  documented: string
  /** The masked value. Null if there is none, or it was refused. */
  value: string | null
  origin: 'environment' | 'default' | 'derived' | 'refused'
  /** The settings from which the value is derived. Null for any other origin. */
  from: string | null
}

export type Settings = ReturnType<typeof settingsOf>

const ENCODE_LOGIN = 'has / ? # and % of user and password percent-encoded (%2F %3F %23 %25)'
const MASK = '***'
const LONGEST_SHOWN = 60

/**
 * Reads settings from the environment. An empty variable counts as not set. A refused value counts as not set too, so
 * all problems are found at once.
 */
export function settingsOf(env: NodeJS.ProcessEnv) {
  const problems: string[] = []
  const read = new Map<string, ReadSetting>()

  const given = (name: string) => {
    const value = env[name]?.trim()
    return value === undefined || value === '' ? null : value
  }

  function setting<T>(name: string, kind: Kind<T>, unset: Unset<NoInfer<T>>): T
  function setting<T>(name: string, kind: Kind<T>, unset: Unset<null>): T | null
  function setting<T>(name: string, { mustBe, parse, secrecy = 'none' }: Kind<T>, { value, documented, from = null }: Unset<T | null>) {
    const text = given(name)
    const parsed = text === null ? undefined : parse(text)
    if (text !== null && parsed === undefined) {
      problems.push(`${name} must be ${mustBe}${secrecy === 'none' ? `, not ${JSON.stringify(text.slice(0, LONGEST_SHOWN))}` : ''}`)
    }
    const origin = text === null ? (from === null ? 'default' : 'derived') : parsed === undefined ? 'refused' : 'environment'
    const effective = parsed === undefined ? value : parsed
    // A parsed value is shown as written in the environment, or as its default is documented.
    const written = origin === 'environment' ? text : null
    const shown = origin === 'refused' ? null : isPlain(effective) ? effective : written
    read.set(name, {
      ...{ name, mustBe, documented, origin, from: origin === 'derived' ? from : null },
      value: shown === null ? null : show(shown, secrecy) || null,
    })
    return effective
  }

  const integer = (name: string, fallback: number | Unset<number>, min: number, max: number) =>
    setting(name, { mustBe: `a whole number from ${min} to ${max}`, parse: wholeNumber(min, max) }, asUnset(fallback))

  return {
    problems,
    read,
    setting,
    integer,
    /** Whether the setting is given, even with a refused value. */
    isSet: (name: string) => given(name) !== null,
    text: (name: string, unset: string | Unset<string>, mustBe: string) => setting(name, { mustBe, parse: (text) => text }, asUnset(unset)),
    optional: (name: string, mustBe: string, documented = '', secrecy: Secrecy = 'none') =>
      setting(name, { mustBe, parse: (text) => text, secrecy }, { value: null, documented }),
    oneOf<T extends string>(name: string, allowed: readonly T[], fallback: NoInfer<T>): T {
      const parse = (text: string) => allowed.find((value) => value === text)
      return setting(name, { mustBe: `one of ${allowed.join(', ')}`, parse }, asUnset(fallback))
    },
    /**
     * Reads an integer from 1 to `max`, or null for `off`. Refuses zero, which could mean either no limit or nothing at
     * all.
     */
    integerOrOff(name: string, fallback: number | null, max: number, documented = String(fallback ?? 'off')) {
      const parse = (text: string) => (text === 'off' ? null : wholeNumber(1, max)(text))
      return setting<number | null>(name, { mustBe: `off or a whole number from 1 to ${max}`, parse }, { value: fallback, documented })
    },
    url(name: string, protocols: readonly string[], unset: string | Unset<string | null>): string | null {
      const parse = (text: string) => (URL.canParse(text) && protocols.includes(new URL(text).protocol) ? text : undefined)
      const starts = protocols.map((protocol) => `${protocol}//`)
      // An unencoded character of a login can end the host too early. Such an address is not shown.
      const text = given(name) ?? ''
      const isUnencoded = parse(text) === undefined && starts.some((start) => text.startsWith(start))
      const mustBe = `a URL that starts with ${starts.join(' or ')}${isUnencoded ? ` and ${ENCODE_LOGIN}` : ''}`
      return setting<string | null>(
        name,
        { mustBe, parse, secrecy: 'url' },
        typeof unset === 'string' ? { value: null, documented: unset } : unset,
      )
    },
    /** Reads a list, in the order of `allowed`. The default is all of it. */
    list<T extends string>(name: string, allowed: readonly T[]): readonly T[] {
      const parse = (value: string) => {
        const wanted = value.split(',').flatMap((part) => part.trim() || [])
        const isKnown = wanted.every((part) => allowed.includes(part as T))
        return isKnown && wanted.length > 0 ? allowed.filter((part) => wanted.includes(part)) : undefined
      }
      return setting<readonly T[]>(name, { mustBe: `some of ${allowed.join(', ')}`, parse }, { value: allowed, documented: 'all' })
    },
  }
}

function asUnset<T extends string | number>(unset: T | Unset<T>): Unset<T> {
  return typeof unset === 'object' ? unset : { value: unset, documented: String(unset) }
}

function wholeNumber(min: number, max: number) {
  return (text: string) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    return number >= min && number <= max ? number : undefined
  }
}

function isPlain(value: unknown): boolean {
  return ['string', 'number'].includes(typeof value) || Array.isArray(value)
}

function show(value: unknown, secrecy: Secrecy): string {
  if (secrecy === 'secret') return MASK
  const parts = Array.isArray(value) ? value.map(String) : [String(value)]
  return (secrecy === 'url' ? parts.flatMap((part) => part.split(/,\s*(?=[a-z]+:\/\/)/)).map(maskUrl) : parts).join(', ')
}

const SHOWN_PARAMETERS = ['sslmode', 'sslrootcert', 'host', 'port']

/** Masks the login and the query's values, which may contain a password. Keeps the role in a PostgreSQL address. */
function maskUrl(text: string): string {
  if (!/[:@]/.test(text)) return text
  if (!URL.canParse(text)) return MASK
  const url = new URL(text)
  // The path of a malformed address may contain a login.
  if (url.pathname.includes('@') || !/^[a-z0-9+.-]+:\/\//i.test(text)) return `${url.protocol}${MASK}`
  if (url.password !== '') url.password = MASK
  if (url.username !== '' && !url.protocol.startsWith('postgres')) url.username = MASK
  for (const name of url.searchParams.keys()) if (!SHOWN_PARAMETERS.includes(name)) url.searchParams.set(name, MASK)
  url.hash = ''
  return url.href.replace(/\/$/, text.endsWith('/') ? '/' : '')
}

import { isCurrency } from '../../client/src/currency.ts'
import { isEncoding } from '../encoding.ts'
import { KEY_SCOPES, type Scope } from '../http/scopes.ts'
import { instantOf } from '../shop-time.ts'
import type { Flag, Option } from './command.ts'

const ORDER_ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i
const ORDER_NUMBER = /^\d{1,18}$/
const MAX_LIMIT = 10_000
const MAX_DEMO_ORDERS = 100_000
const MAX_KEY_DAYS = 731
const MAX_OVERLAP_HOURS = 168
const MAX_KEEP_HOURS = 87_600
export const DEFAULT_LIMIT = 50

export function flag(help: string): Flag {
  return { help }
}

/** `Date` reads 30 February as 2 March. */
function isDay(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text)
}

export function text(value: string, help: string): Option<string> {
  return { value, help, must: 'have a value', read: (given) => given }
}

export function oneOf<const T extends string>(known: readonly T[], help: string): Option<T> {
  return { value: known.join('|'), help, must: `be one of ${known.join(', ')}`, read: (given) => known.find((name) => name === given) }
}

export function someOf<const T extends string>(known: readonly T[], help: string): Option<T> & { isRepeatable: true } {
  return { ...oneOf(known, help), isRepeatable: true }
}

export const json: Flag = flag('prints JSON instead of text')

function wholeNumber(max: number, help: string, { min = 1, value = 'N' } = {}): Option<number> {
  return {
    value,
    help,
    must: `be a whole number from ${min} to ${max}`,
    read(given) {
      const number = /^\d{1,9}$/.test(given) ? Number(given) : -1
      return number >= min && number <= max ? number : undefined
    },
  }
}

export const limit = wholeNumber(MAX_LIMIT, `maximum number of rows, ${DEFAULT_LIMIT} by default`)

export const count = wholeNumber(MAX_DEMO_ORDERS, 'number of orders; without it and without --fast it ends with Ctrl-C')

export const expiresInDays = wholeNumber(MAX_KEY_DAYS, 'ends by itself after this number of days; without it the key does not expire')

export const overlapHours = wholeNumber(
  MAX_OVERLAP_HOURS,
  'for how long the present secret stays valid, 24 hours by default; 0 ends it at once',
  { min: 0, value: 'HOURS' },
)

export const keepHours = wholeNumber(MAX_KEEP_HOURS, 'keeps snapshots of these hours, 120 by default; 0: the newest of each table', {
  min: 0,
  value: 'HOURS',
})

const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000 }

export const wait: Option<number> = {
  value: 'DURATION',
  help: 'how long to retry for locks, such as 90s, 10m or 2h; 1h by default',
  must: 'be a time such as 90s, 10m or 2h',
  read(given) {
    const [, number, unit = ''] = /^(\d{1,5})([smh])$/.exec(given) ?? []
    const unitMs = UNIT_MS[unit]
    return unitMs === undefined ? undefined : Number(number) * unitMs
  },
}

export const scopes: Option<Scope[]> = {
  value: 'SCOPE,…',
  isRequired: true,
  help: 'what the key may do, such as orders:read,stock:write: see docs/inside/security.md',
  must: `be some of ${KEY_SCOPES.join(', ')}, separated by commas`,
  read(given) {
    const names = given.split(',').map((name) => name.trim())
    const known = names.flatMap((name) => KEY_SCOPES.filter((scope) => scope === name))
    return known.length === names.length ? known : undefined
  },
}

export const databaseUrl: Option<string> = {
  value: 'URL',
  help: "moves this database instead of the embedded one; its owner's address",
  must: 'be an address that starts with postgres:// or postgresql://',
  read: (given) => (URL.canParse(given) && /^postgres(ql)?:$/.test(new URL(given).protocol) ? given : undefined),
}

/** A day or time by the shop's clock. It becomes an instant once the shop's time zone is known. */
export type GivenTime = (timeZone: string) => Date

const timeOf = (help: string): Option<GivenTime> => ({
  value: 'TIME',
  help,
  must: "be a time such as 2026-03-01T12:00:00Z, or a day or a time of the shop's clock such as 2026-03-01",
  read(given) {
    const time = new Date(given)
    if (!isDay(given.slice(0, 10)) || Number.isNaN(time.getTime())) return undefined
    if (/(?:Z|[+-]\d\d:\d\d)$/.test(given)) return () => time
    return instantOf(given, 'UTC') === null ? undefined : (timeZone) => instantOf(given, timeZone) ?? time
  },
})

export const since = timeOf('only what changed since then, an instant or a day of the shop')
export const placedFrom = timeOf('compares only the orders that were placed then or later; not the catalogue')
export const placedBefore = timeOf('compares only the orders that were placed before then; not the catalogue')

export const orderId: Option<string> = {
  value: 'ID',
  help: 'only the order with this id',
  must: 'be the id of an order',
  read: (given) => (ORDER_ID.test(given) ? given.toLowerCase() : undefined),
}

export const DEFAULT_SOURCE = 'import'
export const source: Option<string> = {
  value: 'SHOP',
  help: `the shop that the ids in the file are of; ${DEFAULT_SOURCE} by default`,
  must: 'have 1 to 40 small letters, digits and hyphens',
  read: (given) => (/^[a-z0-9][a-z0-9-]{0,39}$/.test(given) ? given : undefined),
}

export const currency: Option<string> = {
  value: 'EUR',
  help: 'the currency of the prices in the file',
  must: 'be an ISO 4217 code such as EUR',
  read: (given) => (isCurrency(given) ? given : undefined),
}

export const encoding: Option<string> = {
  value: 'NAME',
  help: "the file's encoding, such as windows-1252, where it is neither UTF-8 nor UTF-16",
  must: 'be the name of an encoding, such as windows-1252',
  read: (given) => (isEncoding(given) ? given : undefined),
}

export const dryRun: Flag = flag('checks the file against the store and stores nothing')

export const runId: Option<string> = {
  value: 'ID',
  help: 'for the console, which has recorded the run under this id',
  must: 'be the id of a run',
  read: (given) => (ORDER_ID.test(given) ? given.toLowerCase() : undefined),
}

export const orderIdOrNumber: Option<string> = {
  value: 'ID|NUMBER',
  help: 'only the mails of this order',
  must: 'be an id or a number of an order',
  read: (given) => (ORDER_ID.test(given) || ORDER_NUMBER.test(given) ? given : undefined),
}

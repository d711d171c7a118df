// What the converters share. Plain Node.js 20, no dependencies: copy the folder and change it for your shop.
import { readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'

/**
 * The records of an export: JSON Lines with a record, a list or an answer of an API (`{orders: […]}`) in each line, or one JSON text over several
 * lines. Ends the program with status 2 when the file is another one: when its first record lacks one of `members`. `expected`: what it should be.
 */
export async function* readRecords(file, { key, members, expected }) {
  let isFirst = true
  for await (const record of parseRecords(file, key, expected)) {
    const missing = members.filter((name) => record?.[name] === undefined)
    if (isFirst && missing.length > 0) refuse(`${file}: its first record lacks ${missing.join(', ')}; expected ${expected}`)
    isFirst = false
    yield record
  }
}

async function* parseRecords(file, key, expected) {
  let isWhole = false
  try {
    // Opened first: an error of opening would otherwise go past the loop.
    const lines = (await open(file)).readLines({ encoding: 'utf8' })
    for await (const line of lines) {
      if (line.trim() === '') continue
      const value = parse(line)
      isWhole = value === undefined
      if (isWhole) break
      yield* recordsOf(value, key)
    }
  } catch (error) {
    if (error.syscall === undefined) throw error
    refuse(`${file} cannot be read: ${error.message}; expected ${expected}`)
  }
  if (isWhole) yield* recordsOf(parse(readFileSync(file, 'utf8')) ?? refuse(`${file} is no JSON; expected ${expected}`), key)
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function recordsOf(value, key) {
  if (Array.isArray(value)) return value
  return Array.isArray(value?.[key]) ? value[key] : [value]
}

// ISO 4217; all other currencies have two decimals.
const DIGITS = { JPY: 0, KRW: 0, VND: 0, CLP: 0, ISK: 0, XAF: 0, XOF: 0, BHD: 3, JOD: 3, KWD: 3, OMR: 3, TND: 3 }

/** `12.5` EUR is 1250, exactly. Throws when the amount has more decimals than the currency. */
export function toMinor(amount, currency) {
  const [, sign, whole, decimals = ''] = /^(-?)(\d+)(?:\.(\d*?)0*)?$/.exec(String(amount)) ?? fail(`${amount} is no amount`)
  const digits = DIGITS[currency] ?? 2
  if (decimals.length > digits) fail(`${amount} ${currency} has too many decimals`)
  return Number(`${sign}${whole}${decimals.padEnd(digits, '0')}`) + 0
}

/** A line, also where the price of a piece is no whole number of minor units: then one of all pieces. */
export function toLine({ sku, name, quantity, total }) {
  const isWhole = total % quantity === 0
  return {
    ...(sku ? { sku } : {}),
    name: isWhole ? name : `${quantity} × ${name}`,
    unit_price: isWhole ? total / quantity : total,
    quantity: isWhole ? quantity : 1,
  }
}

/** A charge below 0, such as a fee by which plugins of WooCommerce take something off, is a discount. */
export function toAdjustments(...charges) {
  return charges
    .filter(({ amount }) => amount !== 0)
    .map(({ kind, label, amount }) => ({ kind: amount < 0 ? 'discount' : kind, label: (label || kind).slice(0, 200), amount }))
}

const PATHS = {
  pending: ['pending'],
  confirmed: ['pending', 'confirmed'],
  shipped: ['pending', 'confirmed', 'shipped'],
  delivered: ['pending', 'confirmed', 'shipped', 'delivered'],
  cancelled: ['pending', 'cancelled'],
  returned: ['pending', 'confirmed', 'shipped', 'returned'],
}

/** The history that leads to `status`. A time that the export lacks is that of the step before it, and none is before an earlier step. */
export function toHistory(status, times, details = {}) {
  let at = toTime(times.pending)
  return PATHS[status].map((step) => {
    const known = times[step] ? toTime(times[step]) : at
    if (known > at) at = known
    return { status: step, at, ...(step === status || step === 'shipped' ? details[step] : undefined) }
  })
}

/** RFC 3339. WordPress writes UTC without a zone. */
function toTime(text) {
  return new Date(/(Z|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text}Z`).toISOString()
}

/** Null unless there is a street and a country. A part that is missing is `-`. */
export function toAddress({ name, line1, line2, city, region, postal_code, country, phone }) {
  if (!line1 || !/^[A-Za-z]{2}$/.test(country ?? '')) return null
  const cut = (text, length) => (text?.trim() ? text.trim().slice(0, length) : null)
  return {
    name: cut(name, 200) ?? '-',
    line1: cut(line1, 200) ?? '-',
    line2: cut(line2, 200),
    city: cut(city, 100) ?? '-',
    region: cut(region, 100),
    postal_code: cut(postal_code, 20) ?? '-',
    country: country.toUpperCase(),
    phone: cut(phone, 40),
  }
}

/** The id of somebody who ordered without an account: the same for all orders with this address. */
export function guestId(email) {
  return `guest:${email.trim().toLowerCase()}`
}

/** Writes what `convert` yields as NDJSON; a record that it throws for is reported and left out, and the exit status is then 1. */
export async function convertAll(records, convert) {
  for await (const record of records) {
    try {
      for (const line of convert(record)) process.stdout.write(`${JSON.stringify(line)}\n`)
    } catch (error) {
      process.exitCode = 1
      console.error(`${record?.id ?? 'a record'}: ${error.message}`)
    }
  }
}

export function fail(message) {
  throw new Error(message)
}

/** Ends the program: the command line or a file is wrong. */
function refuse(message) {
  console.error(message)
  process.exit(2)
}

/**
 * Runs what the command line names. `commands`: for each, `run` and how its arguments are written; a second one is the currency if it is required.
 */
export async function runCommand(script, commands) {
  const [what, file, extra] = process.argv.slice(2)
  const { run, args } = commands[what] ?? {}
  const names = Object.keys(commands)
  if (run === undefined) {
    const wrong = what === undefined ? 'nothing to convert is named' : `"${what}" is none of ${names.join(', ')}`
    refuse(`${wrong}; usage: ${script} ${names.join('|')} FILE`)
  }
  if (!file) refuse(`the file is missing; usage: ${script} ${what} ${args}`)
  if (args === 'FILE CURRENCY' && !/^[A-Z]{3}$/.test(extra ?? ''))
    refuse(`the currency of the prices is missing, such as EUR; usage: ${script} ${what} ${args}`)
  await run()
}

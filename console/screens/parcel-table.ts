import { plural, t } from '../kit/language.ts'
export interface Parcel {
  /** The order number. */
  readonly number: string
  carrier: string
  parcel: string
  url: string
}

type Cells = readonly (readonly string[])[]

const CARRIER = /carrier|courier|service|versand|transport/i
/** Patterns for titles of columns with parcel numbers. The first match decides. */
const PARCEL = [/track|parcel|sendung|paket|colis|paquete|bulto|seguimiento|suivi|waybill|awb/i, /shipment|consignment|barcode|label/i]
const NO_NUMBER = /date|datum|fecha|time|status|weight|gewicht|cost|price|count|type|format/i
const ADDRESS = /^https?:\/\//i

/**
 * Fills parcels from the cells of a spreadsheet or a carrier's file. If a column has order numbers, each line goes to
 * its order. Otherwise the lines go to the rows below `from`. Returns a text about what was done.
 */
export function fillTable(parcels: readonly Parcel[], cells: Cells, from: { row: number; field: 'carrier' | 'parcel' }): string {
  const byOrder = new Map(parcels.map((parcel) => [parcel.number, parcel]))
  const width = Math.max(0, ...cells.map(({ length }) => length))
  const columns = Array.from({ length: width }, (_, column) => cells.map((row) => row[column] ?? ''))
  const known = columns.map((column) => column.filter((cell) => byOrder.has(orderNumber(cell))).length)
  const order = known.indexOf(Math.max(...known))
  if (width === 0) return t`The text has no lines.`
  if ((known[order] ?? 0) === 0) return fillDown(parcels, cells, from)

  const [header = []] = cells
  const hasHeader = !byOrder.has(orderNumber(header[order] ?? '')) && !/\d/.test(header[order] ?? '')
  const lines = hasHeader ? cells.slice(1) : cells
  const { carrier, parcel, url } = findColumns(hasHeader ? header : [], columns, order)
  if (parcel === null) return t`No column is named as a parcel number: ${header.filter(Boolean).join(', ')}.`
  const strange: string[] = []
  const repeated: string[] = []
  const taken = new Map<Parcel, string>()
  let count = 0
  for (const line of lines) {
    const found = byOrder.get(orderNumber(line[order] ?? ''))
    if (found === undefined) {
      strange.push(line[order] ?? '')
      continue
    }
    const number = line[parcel] ?? ''
    if (taken.has(found) && taken.get(found) !== number) {
      repeated.push(found.number)
      continue
    }
    taken.set(found, number)
    count++
    found.parcel = number || found.parcel
    found.carrier = line[carrier] || found.carrier
    found.url = line[url] || found.url
  }
  const [wrong, more] = [strange.length, repeated.length]
  const unknown = plural(wrong, t`${wrong} line names no order of this table`, t`${wrong} lines name no order of this table`)
  const again = plural(more, t`${more} more line has a second number of an order`, t`${more} more lines have a second number of an order`)
  return [takenText(count), ...namesText(unknown, strange), ...namesText(again, repeated)].join(' ')
}

function orderNumber(cell: string): string {
  return cell.replace(/^#/, '').trim()
}

function takenText(count: number): string {
  return plural(count, t`${count} line was taken.`, t`${count} lines were taken.`)
}

function namesText(what: string, orders: readonly string[]): string[] {
  return orders.length === 0 ? [] : [`${what}: ${orders.slice(0, 5).join(', ')}${orders.length > 5 ? ' …' : ''}.`]
}

/**
 * Finds columns by their titles. `parcel` is null when no title is one for parcel numbers. Without titles, the column
 * with the most different cells has the parcel numbers.
 */
function findColumns(header: readonly string[], columns: Cells, order: number) {
  const isUsed = (index: number) => index !== order && (columns[index] ?? []).some((cell) => cell !== '')
  const isAddress = (index: number) => (columns[index] ?? []).some((cell) => ADDRESS.test(cell))
  const named = (pattern: RegExp) => header.findIndex((name, index) => isUsed(index) && !isAddress(index) && pattern.test(name))
  const distinct = (index: number) => new Set(columns[index]).size
  const others = columns.map((_, index) => index).filter((index) => isUsed(index) && !isAddress(index))
  const byDistinct = others.toSorted((a, b) => distinct(b) - distinct(a) || b - a)
  const titled = PARCEL.map((pattern) =>
    header.findIndex((name, index) => isUsed(index) && !isAddress(index) && pattern.test(name) && !NO_NUMBER.test(name)),
  )
  const parcel = header.length === 0 ? (byDistinct[0] ?? -1) : (titled.find((index) => index !== -1) ?? null)
  const rest = others.filter((index) => index !== parcel)
  const carrier = named(CARRIER) === -1 && rest.length === 1 ? (rest[0] ?? -1) : named(CARRIER)
  return { parcel, carrier, url: columns.findIndex((_, index) => isAddress(index)) }
}

/** One column fills the rows below the cursor. Of two columns, the first has the carriers. */
function fillDown(parcels: readonly Parcel[], cells: Cells, { row, field }: { row: number; field: 'carrier' | 'parcel' }): string {
  const below = parcels.slice(row)
  for (const [index, parcel] of below.entries()) {
    const [first = '', second = ''] = cells[index] ?? []
    if (second !== '') [parcel.carrier, parcel.parcel] = [first || parcel.carrier, second]
    else if (first !== '') parcel[field] = first
  }
  const count = Math.min(cells.length, below.length)
  const rest = cells.length - count
  return rest === 0 ? takenText(count) : t`${takenText(count)} ${rest} more had no row.`
}

import { isDeepStrictEqual } from 'node:util'
import { toIdentifier } from '../../http/normalize-input.ts'
import type { AdjustmentKind } from '../../orders/order-changes.ts'
import { type OrderStatus, pathTo, ruleOf } from '../../orders/order-status.ts'
import { findVatNumberFault } from '../../orders/vat-number.ts'
import type { Decimal } from './amounts.ts'
import { type Conversion, unmappable } from './conversion.ts'
import { cutText, htmlToLine, htmlToText } from './html-text.ts'

const MAX_NOTE = 1_000
const MAX_VAT_NUMBER = 40

/** Amounts are minor units unless they are `Decimal`. */
export interface ShopOrder {
  id: string
  /** The number that customers see. */
  number: string | number
  customerId: string
  currency: string
  lines: { sku?: string | null | undefined; name: string; quantity: number; total: number }[]
  charges: { kind: AdjustmentKind; label?: string | null | undefined; amount: number }[]
  /** `text` is the export's own text, and `amount` is in minor units. */
  total: { text: Decimal; amount: number }
  address: ShopAddress | null
  /** Absent if it equals the shipping address. */
  billing?: ShopAddress | null
  vatNumber?: string | null | undefined
  note?: string | null | undefined
  status: OrderStatus
  times: Times
  cancelReason?: string | null | undefined
  parcels: { carrier?: string | null | undefined; number?: string | null | undefined }[]
  /** What has happened to a part of the order only, such as "partly refunded". */
  part?: string | null
}

/** Converts an order to a line for the import. Throws Unmappable. */
export function toOrderLine(order: ShopOrder, conversion: Conversion): object {
  const { id, number, customerId, currency, charges, total, address, status } = order
  const note = (text: string) => conversion.note(`order ${number}`, text)
  if (order.part) reportPart(order.part, status, note)
  const shipping = address === null ? null : toAddress(address)
  const billing = order.billing ? toAddress(order.billing) : null
  const { lines, others } = withoutEmptyLines(order.lines, charges)
  const written = lines.map(toLine)
  const adjustments = toAdjustments(others)
  const ofLines = written.reduce((sum, { unit_price, quantity }) => sum + unit_price * quantity, 0)
  const rounding = total.amount - adjustments.reduce((sum, { amount }) => sum + amount, ofLines)
  // Shops that round the whole order's tax can differ by half a minor unit for each amount.
  const mostRounding = Math.max(1, Math.ceil((written.length + adjustments.length) / 2))
  return {
    external_id: id,
    number,
    customer: { external_id: customerId },
    currency,
    lines: written,
    adjustments: [
      ...adjustments,
      ...(Math.abs(rounding) <= mostRounding ? toAdjustments([{ kind: 'fee', label: 'rounding', amount: rounding }]) : []),
    ],
    total: total.amount,
    source_total: String(total.text),
    shipping_address: shipping,
    // Shops that ask for one phone number write it into one of the two addresses, so phones are not compared.
    ...(billing === null || isDeepStrictEqual({ ...billing, phone: null }, { ...shipping, phone: null })
      ? {}
      : { billing_address: billing }),
    ...toVatNumber(order.vatNumber, () => note('its VAT number is not written like one, and is left out')),
    note: cutNote(order.note, () => note(`its note is cut to ${MAX_NOTE} characters`)),
    history: toHistory(status, order.times, {
      shipped: toTracking(order.parcels, note),
      cancelled: order.cancelReason ? { reason: order.cancelReason } : {},
    }),
  }
}

/** The store keeps one parcel of an imported order. */
function toTracking(parcels: ShopOrder['parcels'], onNote: (text: string) => void): object {
  const [first, ...others] = new Map(parcels.flatMap(({ carrier, number }) => (number ? [[number, carrier || '-']] : [])))
  if (first === undefined) return {}
  if (others.length > 0) onNote(`it keeps the first of ${others.length + 1} tracking numbers`)
  return { tracking: { carrier: first[1], number: first[0] } }
}

/** Throws Unmappable for an order that is not sent yet, because its whole goods would be sent from here. */
function reportPart(part: string, status: OrderStatus, onNote: (text: string) => void): void {
  if (ruleOf(status).phase === 'open')
    unmappable(`it is ${part}, and all its units would be sent from here: finish it in the other shop, and convert it again`)
  onNote(`it is ${part}, and ${status} as a whole here, with all its units and its whole total`)
}

/** Turns a charge without lines, such as a fee agreed by phone, into a line. */
function withoutEmptyLines(
  lines: ShopOrder['lines'],
  charges: ShopOrder['charges'],
): { lines: ShopOrder['lines']; others: ShopOrder['charges'] } {
  if (lines.length > 0) return { lines, others: charges }
  const isLine = ({ kind, amount }: ShopOrder['charges'][number]) => kind !== 'tax' && amount > 0
  const made = charges.filter(isLine).map(({ kind, label, amount }) => ({ name: label || kind, quantity: 1, total: amount }))
  if (made.length === 0) unmappable('it has neither lines nor charges')
  return { lines: made, others: charges.filter((charge) => !isLine(charge)) }
}

/** All units become one line when a unit's price is no whole number of minor units. */
function toLine({ sku, name: written, quantity, total }: ShopOrder['lines'][number], index: number) {
  const name = htmlToLine(written) || sku || '-'
  if (!Number.isSafeInteger(quantity) || quantity < 1)
    unmappable(`line ${index + 1} "${name}" has ${quantity} units; orders have whole quantities here`)
  const isWhole = total % quantity === 0
  return {
    ...(sku ? { sku } : {}),
    name: cutText(isWhole ? name : `${quantity} × ${name}`, 500),
    unit_price: isWhole ? total / quantity : total,
    quantity: isWhole ? quantity : 1,
  }
}

/** Makes adjustments of charges. WooCommerce plugins write discounts as negative fees. */
function toAdjustments(charges: ShopOrder['charges']) {
  return charges
    .filter(({ amount }) => amount !== 0)
    .map(({ kind, label, amount }) => ({
      kind: amount < 0 ? ('discount' as const) : kind,
      label: cutText(htmlToLine(label ?? '') || kind, 200),
      amount,
    }))
}

function toVatNumber(text: string | null | undefined, onFault: () => void): { vat_number?: string } {
  const number = toIdentifier(text ?? '').replace(/^GR/, 'EL')
  if (number === '') return {}
  if (number.length <= MAX_VAT_NUMBER && findVatNumberFault(number) === null) return { vat_number: number }
  onFault()
  return {}
}

function cutNote(note: string | null | undefined, onCut: () => void): string | null {
  const text = htmlToText(note ?? '')
  if (cutText(text, MAX_NOTE) === text) return text || null
  onCut()
  return `${cutText(text, MAX_NOTE - 1)}…`
}

type Times = { pending: string } & Partial<Record<OrderStatus, string | null | undefined>>

/** A missing time is that of the previous step. No time is before an earlier step. */
function toHistory(status: OrderStatus, times: Times, details: Partial<Record<OrderStatus, object>>): object[] {
  let at = toTime(times.pending)
  return pathTo(status).map((step) => {
    const time = times[step]
    const known = time ? toTime(time) : at
    if (known > at) at = known
    return { status: step, at, ...(step === status || step === 'shipped' ? details[step] : undefined) }
  })
}

/** Formats a time by RFC 3339. WordPress writes UTC without a zone. */
function toTime(text: string): string {
  const time = new Date(/(Z|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text}Z`)
  return Number.isNaN(time.getTime()) ? unmappable(`"${text}" is no time`) : time.toISOString()
}

export interface ShopAddress {
  name?: string | null | undefined
  company?: string | null | undefined
  line1?: string | null | undefined
  line2?: string | null | undefined
  city?: string | null | undefined
  region?: string | null | undefined
  postalCode?: string | null | undefined
  country?: string | null | undefined
  phone?: string | null | undefined
}

/** Returns null without a street and a two-letter country. A missing part is `-`. */
function toAddress({ name, company, line1, line2, city, region, postalCode, country, phone }: ShopAddress): object | null {
  if (!line1 || !country || !/^[A-Za-z]{2}$/.test(country)) return null
  const cut = (text: string | null | undefined, length: number) => cutText(htmlToLine(text ?? ''), length) || null
  return {
    name: cut(name, 200) ?? '-',
    ...(company ? { company: cut(company, 200) } : {}),
    line1: cut(line1, 200) ?? '-',
    line2: cut(line2, 200),
    city: cut(city, 100) ?? '-',
    region: cut(region, 100),
    postal_code: cut(postalCode, 20) ?? '-',
    country: country.toUpperCase(),
    phone: cut(phone, 40),
  }
}

/** Orders with the same address have the same id. An order without an address has its own. */
export function guestId(email: string | null | undefined, orderId: string): string {
  const address = email?.trim().toLowerCase()
  return address ? `guest:${address}` : `guest-of-order:${orderId}`
}

export function addGuest(
  conversion: Conversion,
  seen: Set<string>,
  { email, orderId, name }: { email: string | null | undefined; orderId: string; name?: string | null },
): void {
  const id = guestId(email, orderId)
  if (seen.has(id)) return
  seen.add(id)
  const address = email?.trim()
  conversion.add(`guest of order ${orderId}`, () => ({
    external_id: id,
    ...(address ? { email: address } : {}),
    name: name || null,
    guest: true,
  }))
}

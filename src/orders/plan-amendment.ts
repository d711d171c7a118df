import { canonicalJson } from '../encoding.ts'
import { AppError, type FieldError } from '../errors.ts'
import { invalidBody } from '../http/problem.ts'
import type { AmendmentOffer } from './amendment-offer.ts'
import { assertFewChanges, changeReferenceTaken } from './change-limits.ts'
import { type Order, stateOf } from './order.ts'
import { AMENDABLE_COLUMNS, AMENDABLE_MEMBERS, type AmendableValues, amendableValues, valuesAt } from './order-amendments.ts'
import type { Amendable, AmendedChange, OrderChange } from './order-changes.ts'
import { ruleOf } from './order-status.ts'
import type { PlannedChange } from './plan-change.ts'
import { areLinesCovered, haveLinesChanged, planLines, type RequestedLine } from './plan-lines.ts'
import type { Tracking } from './tracking.ts'

export interface RequestedAmendment extends Partial<AmendableValues> {
  type: 'amended'
  /** The version that shipped the parcel names it. */
  parcel?: { version: number; tracking: Tracking }
  lines?: readonly RequestedLine[]
}

export interface AmendmentMail {
  kind: 'amended' | 'readdressed'
  to: 'customer' | 'former_address'
}

/** Throws `too_late_to_amend`, `too_many_changes`, `invalid_body`, or an error of `planLines`. */
export function planAmendment(order: Order, requested: RequestedAmendment, offer: AmendmentOffer | undefined): PlannedChange {
  const amended = differences(order, requested)
  assertInTime(order, amended)
  assertFewChanges(order, requested.type)
  const current = currentValues(order)
  const names = AMENDABLE_COLUMNS.filter((name) => amended.includes(name))
  const former = Object.fromEntries(names.map((name) => [name, current[name]]))
  const hasTracking = amended.includes('tracking') && requested.parcel !== undefined
  const lines = amended.includes('lines') && offer !== undefined ? planLines(order, requested.lines ?? [], offer) : undefined
  return {
    to: order.status,
    change: { type: requested.type, amended, ...(hasTracking ? { parcel: requested.parcel?.version } : {}), ...lines } as AmendedChange,
    ...(hasTracking ? { tracking: requested.parcel?.tracking } : {}),
    values: {
      ...Object.fromEntries(names.map((name) => [AMENDABLE_MEMBERS[name], requested[name]])),
      // The key is the added entry's index.
      ...(names.length === 0 ? {} : { formerValues: { ...order.formerValues, [order.statusHistory.length]: former } }),
    },
    restockedLines: lines?.removed ?? [],
    takenLines: lines?.added ?? [],
    isBySize: true,
  } as PlannedChange
}

/**
 * Whether the order has these values, or made the amendment with the same reference. Throws `change_reference_taken`.
 */
export function isAmendmentMade(order: Order, requested: RequestedAmendment, reference: string | null): boolean {
  const place =
    reference === null ? -1 : order.statusHistory.findIndex((entry) => entry.reference === reference && isAmendment(entry.change))
  if (place === -1) return differences(order, requested).length === 0
  const { statusHistory: history } = order
  const then = { ...order, statusHistory: history.slice(0, place + 1) }
  const values = valuesAt({ values: currentValues(order), former: order.formerValues, history }, place)
  const change = order.statusHistory[place]?.change
  const isWhole =
    isAmendment(change) &&
    change.amended.every((name) => requested[MEMBERS[name]] !== undefined) &&
    areLinesCovered(change, requested.lines ?? [], stateOf({ ...order, statusHistory: history.slice(0, place) }).items)
  const amended = Object.fromEntries(AMENDABLE_COLUMNS.map((name) => [AMENDABLE_MEMBERS[name], values[name]]))
  if (isWhole && differences({ ...then, ...amended }, requested).length === 0) return true
  throw changeReferenceTaken(order, 'amendment')
}

export function amendmentMails({ statusHistory, email, formerValues }: Order, readerEmail: string | null): AmendmentMail[] {
  const change = statusHistory.at(-1)?.change
  if (!isAmendment(change)) return []
  const former = formerValues?.[statusHistory.length - 1]?.email ?? readerEmail
  const [present, notice] = [email ?? readerEmail, { kind: 'readdressed', to: 'former_address' } as const]
  const isNoticed = change.amended.includes('email') && former !== null && former !== present
  return [...(present === null ? [] : [{ kind: 'amended', to: 'customer' } as const]), ...(isNoticed ? [notice] : [])]
}

export function hasPersonalData(requested: RequestedAmendment): boolean {
  return AMENDABLE_COLUMNS.some((name) => requested[name] !== undefined)
}

function isAmendment(change: OrderChange | undefined): change is AmendedChange {
  return change?.type === 'amended'
}

const MEMBERS = {
  ...{ shipping_address: 'shipping_address', billing_address: 'billing_address', vat_number: 'vat_number' },
  ...{ email: 'email', tracking: 'parcel', lines: 'lines' },
} as const satisfies Record<Amendable, keyof RequestedAmendment>

function differences(order: Order, { parcel, lines, ...requested }: RequestedAmendment): Amendable[] {
  const current = currentValues(order)
  const amended: Amendable[] = AMENDABLE_COLUMNS.filter(
    (name) => requested[name] !== undefined && canonicalJson(requested[name]) !== canonicalJson(current[name]),
  )
  if (parcel !== undefined) {
    const known = stateOf(order).parcels.find(({ version }) => version === parcel.version)
    if (known === undefined) throw invalidBody('#/parcel/version', 'is no parcel of the order')
    if (canonicalJson(parcel.tracking) !== canonicalJson(known.tracking)) amended.push('tracking')
  }
  if (lines !== undefined && haveLinesChanged(order, lines)) amended.push('lines')
  return amended
}

function currentValues(order: Order): AmendableValues {
  return amendableValues((name) => order[AMENDABLE_MEMBERS[name]] as AmendableValues[typeof name])
}

/** Delivery address and lines can change until everything is shipped, and other values until the order has ended. */
function assertInTime({ status }: Order, amended: readonly Amendable[]): void {
  const { phase } = ruleOf(status)
  const late = amended.filter((name) => phase === 'ended' || (['shipping_address', 'lines'].includes(name) && phase === 'sent'))
  if (late.length === 0) return
  const errors = late.map(
    (name): FieldError => ({
      pointer: `#/${name === 'tracking' ? 'parcel' : name}`,
      detail: `cannot be changed: the order is ${status}`,
    }),
  )
  throw new AppError('too_late_to_amend', `The order is ${status}.`, { errors, members: { current_status: status } })
}

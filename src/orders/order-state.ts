import type { Money } from '../money.ts'
import type {
  Adjustment,
  AmendedChange,
  HistoryEntry,
  LineQuantity,
  OrderLine,
  Parcel,
  Payment,
  RefundablePayment,
} from './order-changes.ts'
import { adjustmentsOf, paymentOf, refundsOf } from './order-charges.ts'
import { allowedTransitions, type OrderStatus, type PartMove, ruleOf, versionOf } from './order-status.ts'

/** The `shipped` units include returned ones. */
export interface LineState {
  ordered: number
  shipped: number
  cancelled: number
  returned: number
}

export interface OrderState {
  /** The placed lines, followed by the added ones. */
  items: OrderLine[]
  lines: LineState[]
  parcels: Parcel[]
  adjustments: Adjustment[]
  payment: Payment | null
  /** It is null when the amount of a refund is unknown. */
  refunded: Money | null
  refundable: RefundablePayment[]
  total: Money
}

export interface OrderSource {
  items: readonly OrderLine[]
  total: Money
  history: readonly HistoryEntry[]
}

/** The history determines everything that changes later. An entry without `change` moves all movable units. */
export function orderStateOf({ items: placed, total, history }: OrderSource): OrderState {
  const [items, lines] = [[...placed], placed.map(toLineState)]
  const state: OrderState = {
    ...{ items, lines },
    parcels: [],
    adjustments: adjustmentsOf(history, total.currency),
    payment: paymentOf(history),
    ...refundsOf(history, total),
    total: { ...total, amount: total.amount + amountOf(history) },
  }
  let byProduct: LinesByProduct | undefined
  for (const [index, entry] of history.entries()) {
    if (entry.change?.type === 'amended') {
      correctTracking(state.parcels, entry)
      amendLines(state, entry.change)
      byProduct = undefined
    }
    const kind = partsMovedBy(history, index)
    if (kind === null) continue
    const moved = entry.change !== undefined && 'lines' in entry.change ? entry.change.lines : movableUnits(items, lines, kind)
    byProduct ??= groupByProduct(items, lines)
    for (const units of moved) moveUnits(byProduct, kind, units)
    if (kind === 'shipped') state.parcels.push(toParcel(entry, index, moved))
  }
  return state
}

function correctTracking(parcels: Parcel[], { change, tracking }: HistoryEntry): void {
  const index = parcels.findIndex(({ version }) => change?.type === 'amended' && version === change.parcel)
  const parcel = parcels[index]
  if (parcel !== undefined && tracking !== undefined) parcels[index] = { ...parcel, tracking }
}

function toLineState({ quantity }: OrderLine): LineState {
  return { ordered: quantity, shipped: 0, cancelled: 0, returned: 0 }
}

function amendLines({ items, lines }: OrderState, { removed = [], added = [] }: AmendedChange): void {
  removeUnits({ items, lines }, removed)
  items.push(...added)
  lines.push(...added.map(toLineState))
}

/**
 * Takes open units from the last line on, so units that were added last go first. Returns their price in minor units.
 */
export function removeUnits({ items, lines }: Pick<OrderState, 'items' | 'lines'>, removed: readonly LineQuantity[]): number {
  if (removed.length === 0) return 0
  const byProduct = groupByProduct(items.toReversed(), lines.toReversed())
  return removed.reduce((price, units) => price + moveUnits(byProduct, 'cancelled', units), 0)
}

export function placedItems<Line>(items: readonly Line[], history: readonly HistoryEntry[]): readonly Line[] {
  const added = history.reduce((sum, { change }) => sum + (change?.type === 'amended' ? (change.added ?? []).length : 0), 0)
  return added === 0 ? items : items.slice(0, -added)
}

export function amountOf(history: readonly HistoryEntry[]): number {
  return history.reduce((sum, { change }) => sum + (change !== undefined && 'amount' in change ? (change.amount ?? 0) : 0), 0)
}

export function isAmended(history: readonly HistoryEntry[]): boolean {
  return history.some(({ change }) => change !== undefined)
}

export function hasPartMoves(history: readonly HistoryEntry[]): boolean {
  return history.some(({ change }) => change !== undefined && ('lines' in change || 'added' in change))
}

const MOVED_BY_CHANGE: Record<string, PartMove> = { shipped: 'shipped', lines_cancelled: 'cancelled', returned: 'returned' }

export function partsMovedBy(history: readonly HistoryEntry[], index: number): PartMove | null {
  const entry = history[index]
  if (entry === undefined) return null
  if (entry.change !== undefined) return MOVED_BY_CHANGE[entry.change.type] ?? null
  return entry.status === history[index - 1]?.status ? null : ruleOf(entry.status).moves
}

export function countMovable({ ordered, shipped, cancelled, returned }: LineState, kind: PartMove): number {
  return kind === 'returned' ? shipped - returned : ordered - shipped - cancelled
}

export function movableUnits(items: readonly OrderLine[], lines: readonly LineState[], kind: PartMove): LineQuantity[] {
  const units = new Map<string, LineQuantity>()
  for (const [index, line] of lines.entries()) {
    const [product_id, quantity] = [items[index]?.product_id ?? '', countMovable(line, kind)]
    if (quantity > 0) units.set(product_id, { product_id, quantity: (units.get(product_id)?.quantity ?? 0) + quantity })
  }
  return [...units.values()]
}

/**
 * The lines of each product, in the order's sequence. A product has several lines if they have different attributes, or
 * after an amendment or import.
 */
type LinesByProduct = ReadonlyMap<string, readonly PricedLine[]>

interface PricedLine {
  place: number
  state: LineState
  price: number
}

export function groupByProduct(items: readonly OrderLine[], lines: readonly LineState[]): LinesByProduct {
  const byProduct = new Map<string, PricedLine[]>()
  for (const [place, state] of lines.entries()) {
    const item = items[place]
    if (item === undefined) continue
    const known = byProduct.get(item.product_id)
    const priced = { place, state, price: item.unit_price.amount }
    if (known === undefined) byProduct.set(item.product_id, [priced])
    else known.push(priced)
  }
  return byProduct
}

/** Moves units of the named line, or from a product's first line on. Returns their price in minor units. */
export function moveUnits(byProduct: LinesByProduct, kind: PartMove, { product_id, quantity, line }: LineQuantity): number {
  let [left, moved] = [quantity, 0]
  for (const { place, state, price } of byProduct.get(product_id) ?? []) {
    if (line !== undefined && line !== place) continue
    const taken = Math.min(left, Math.max(0, countMovable(state, kind)))
    state[kind] += taken
    left -= taken
    moved += taken * price
  }
  return moved
}

export function itemsWith<Line extends object>(
  items: readonly Line[],
  lines: readonly LineState[],
): (Line & Partial<Pick<LineState, PartMove>>)[] {
  return items.map((item, index) => {
    const { shipped = 0, cancelled = 0, returned = 0 } = lines[index] ?? {}
    return {
      ...item,
      ...(shipped === 0 ? {} : { shipped }),
      ...(cancelled === 0 ? {} : { cancelled }),
      ...(returned === 0 ? {} : { returned }),
    }
  })
}

/** A partly shipped order cannot be cancelled as a whole. */
export function transitionsOf(status: OrderStatus, lines: readonly LineState[]): readonly OrderStatus[] {
  const allowed = allowedTransitions(status)
  return lines.some(({ shipped }) => shipped > 0) ? allowed.filter((to) => ruleOf(to).moves !== 'cancelled') : allowed
}

function toParcel(entry: HistoryEntry, index: number, lines: readonly LineQuantity[]): Parcel {
  const { at, reference, tracking } = entry
  return {
    version: versionOf(entry, index),
    shipped_at: at,
    ...(reference === undefined ? {} : { reference }),
    ...(tracking === undefined ? {} : { tracking }),
    lines: [...lines],
  }
}

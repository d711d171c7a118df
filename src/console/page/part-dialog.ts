import { type PartMove as Done, ruleOf } from '#order-status'
import type { Schemas } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { create } from './dom.ts'
import { field } from './form.ts'
import { causeFields, readMoveDetails, restockField, trackingFields } from './move-fields.ts'
import type { AdminOrder } from './order-parts.ts'

type Item = Schemas['OrderItem']

/** A change of a part of an order. */
export interface PartMove {
  path: 'shipments' | 'cancellations' | 'returns'
  /** The text of the button, and of the title of the dialog. */
  title: string
  /** What the units are afterwards. */
  done: Done
  /** The units of a line that it can take. */
  countLeft(item: Item): number
  /** Whether the form begins with all units that are left, as for a parcel. */
  hasAllFirst: boolean
}

const countOpen = ({ quantity, shipped = 0, cancelled = 0 }: Item) => quantity - shipped - cancelled

const PART_MOVES: readonly PartMove[] = [
  { path: 'shipments', title: 'Ship parcel', done: 'shipped', countLeft: countOpen, hasAllFirst: true },
  {
    path: 'cancellations',
    title: 'Cancel part',
    done: 'cancelled',
    countLeft: countOpen,
    hasAllFirst: false,
  },
  {
    path: 'returns',
    title: 'Return part',
    done: 'returned',
    countLeft: ({ shipped = 0, returned = 0 }) => shipped - returned,
    hasAllFirst: false,
  },
]

/** The changes of a part that the order can have now. The store decides it again. */
export function partMovesOf({ status, items }: AdminOrder): PartMove[] {
  return PART_MOVES.filter(({ done, countLeft }) => ruleOf(status).parts.includes(done) && items.some((item) => countLeft(item) > 0))
}

export interface PartDialogOptions {
  signal: AbortSignal
  /** Makes the change, of `count` units; the dialog stays open when this throws. */
  onMove: (body: object, count: number) => Promise<void>
}

/** Asks for the units and what belongs to them. */
export function openPartDialog(
  order: AdminOrder,
  { path, title, countLeft, hasAllFirst }: PartMove,
  { signal, onMove }: PartDialogOptions,
): void {
  const choices = [...leftByProduct(order, countLeft)].map(([product_id, { item, left }]) => {
    const control = create('input', { type: 'number', min: '0', max: String(left), step: '1', required: true, autocomplete: 'off' })
    control.value = hasAllFirst ? String(left) : '0'
    return { product_id, control, element: field(`${item.name} (${item.sku})`, control, `At most ${left}.`) }
  })

  async function onSubmit(data: FormData): Promise<void> {
    const chosen = choices.map(({ product_id, control }) => ({ product_id, quantity: Number(control.value) }))
    const lines = chosen.filter(({ quantity }) => quantity > 0)
    if (lines.length === 0) throw new Error('Choose at least one unit.')
    const body = { lines, ...(path === 'returns' ? { restock: false } : {}), ...readMoveDetails(data) }
    await onMove(
      body,
      lines.reduce((sum, { quantity }) => sum + quantity, 0),
    )
  }

  openFormDialog(
    { title: `${title} of order ${order.number}`, submit: title, signal, onSubmit },
    create('fieldset', { class: 'fields' }, create('legend', {}, 'Units'), ...choices.map(({ element }) => element)),
    ...(path === 'shipments' ? trackingFields() : []),
    ...causeFields(),
    path === 'returns' ? restockField() : null,
  )
}

/** Two lines of a product are one choice: the store takes its units from the first on. */
function leftByProduct({ items }: AdminOrder, countLeft: PartMove['countLeft']): Map<string, { item: Item; left: number }> {
  const found = new Map<string, { item: Item; left: number }>()
  for (const item of items) {
    const left = countLeft(item) + (found.get(item.product_id)?.left ?? 0)
    if (left > 0) found.set(item.product_id, { item, left })
  }
  return found
}

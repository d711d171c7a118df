import { ruleOf } from '#order-status'
import type { Schemas } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { create } from './dom.ts'
import { field } from './form.ts'
import { newReference, type OrderStatus } from './order-parts.ts'

/** What belongs to a move of an order or of a part of it. */
export interface MoveDetails {
  reason?: string
  reference?: string
  tracking?: Schemas['Tracking']
  restock?: boolean
}

function input(name: string, maxLength: number, value = ''): HTMLInputElement {
  return create('input', { name, maxLength, value, autocomplete: 'off' })
}

export function trackingFields(): HTMLElement[] {
  return [
    field('Carrier', input('carrier', 100)),
    field('Parcel number', input('parcel', 100)),
    field('Address that shows the parcel', Object.assign(input('url', 2_000), { type: 'url', placeholder: 'https://' })),
  ]
}

export function restockField(): HTMLElement {
  return create('label', { class: 'choice' }, create('input', { type: 'checkbox', name: 'restock' }), ' The goods can be sold again')
}

/** Sending a move, or another change, again repeats it under the same reference, so it is made once. */
export function causeFields(what = 'transition'): HTMLElement[] {
  return [
    field('Reason', input('reason', 500), 'The customer sees this text, and the data lake keeps it. Do not name a person.'),
    field(
      'Reference',
      input('reference', 200, newReference()),
      `A ${what} that is repeated with the same reference is made only once. The customer can see the reference.`,
    ),
  ]
}

/** What was entered. Throws with the way to enter it. */
export function readMoveDetails(data: FormData): MoveDetails {
  const text = (name: string) => String(data.get(name) ?? '').trim()
  const [reason, reference, carrier, number, url] = ['reason', 'reference', 'carrier', 'parcel', 'url'].map(text)
  if ((carrier === '') !== (number === '')) throw new Error('Tracking needs both the carrier and the number of the parcel.')
  if (url && !carrier) throw new Error('An address that shows the parcel needs its carrier and number.')
  return {
    ...(reason ? { reason } : {}),
    ...(reference ? { reference } : {}),
    ...(carrier && number ? { tracking: { carrier, number, ...(url ? { url } : {}) } } : {}),
    ...(data.get('restock') === null ? {} : { restock: true }),
  }
}

export type Transition = Schemas['Transition']

interface MoveDialogOptions {
  title: string
  to: OrderStatus
  /** A parcel has one order, so a move of many has no tracking. */
  hasTracking: boolean
  signal: AbortSignal
  /** Makes the move; the dialog stays open when this throws. */
  onMove: (transition: Transition) => Promise<void>
}

/** Asks for what belongs to a move, and makes it. */
export function openMoveDialog({ title, to, hasTracking, signal, onMove }: MoveDialogOptions, ...children: Node[]): void {
  const { moves } = ruleOf(to)
  openFormDialog(
    { title, submit: `Move to ${to}`, signal, onSubmit: (data) => onMove({ to, ...readMoveDetails(data) }) },
    ...(moves === 'shipped' && hasTracking ? trackingFields() : []),
    ...causeFields(),
    moves === 'returned' ? restockField() : null,
    ...children,
  )
}

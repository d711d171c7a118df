import { ruleOf } from '#order-status'
import type { Schemas } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { causeFields, readMoveDetails, restockField, trackingFields } from './move-fields.ts'
import type { OrderStatus } from './order-parts.ts'

export type Transition = Schemas['Transition']

export interface MoveDialogOptions {
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

import { type AuditContext, recordActivities } from '../activity/record-activity.ts'
import type { Transaction } from '../db/pool.ts'
import { type Order, stateOf } from './order.ts'
import type { OrderChange } from './order-changes.ts'

/** Records moves of orders. Reasons, references and labels are in the orders' history only: they may name a person. */
export async function recordMoves(
  tx: Transaction,
  auditContext: AuditContext,
  before: ReadonlyMap<string, Order>,
  moved: readonly Order[],
): Promise<void> {
  const changes = moved.map((order) => {
    const previous = before.get(order.id) ?? order
    const isTotalChanged = stateOf(previous).total.amount !== stateOf(order).total.amount
    const shown = (state: Order) => ({
      ...{ status: state.status, version: state.version },
      ...(isTotalChanged ? { total: stateOf(state).total } : {}),
    })
    const change = order.statusHistory.at(-1)?.change
    const after = { ...shown(order), ...(change === undefined ? {} : { change: summarize(change) }) }
    return { subjectType: 'order' as const, subjectId: order.id, before: shown(previous), after }
  })
  await recordActivities(tx, auditContext, changes)
}

function summarize(change: OrderChange): object {
  const { type } = change
  switch (type) {
    case 'adjusted':
      return { type, kind: change.kind }
    case 'adjustment_voided':
      return { type, adjustment: change.adjustment }
    case 'payment':
      return { type, provider: change.provider, state: change.state }
    default:
      return { type, units: change.lines.reduce((sum, { quantity }) => sum + quantity, 0) }
  }
}

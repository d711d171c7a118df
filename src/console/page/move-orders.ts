import { call, isRefusal, type Schemas, send } from './api.ts'
import type { Transition } from './move-fields.ts'
import { type AdminOrder, actorText } from './order-parts.ts'
import type { PartMove } from './part-dialog.ts'

/** The result for one order of a move of many. */
export type MoveResult =
  | { line: number; order_id: string; ok: true; status: string; version: number; repeated?: true }
  | { line: number; order_id: string | null; ok: false; code: string; detail: string }

/** Orders of one request: each answer is progress, and a lost one leaves little to ask for again. */
const AT_ONCE = 50

/** Another operator was faster: the order is not as this one saw it, and nothing was changed. */
export class Overtaken extends Error {}

/**
 * Changes the order from the version that the operator sees. `done` is the outcome, such as `moved to shipped`. Throws
 * Overtaken when the order has changed meanwhile.
 */
export async function changeOrder(
  { id, version }: AdminOrder,
  path: 'transitions' | PartMove['path'],
  body: object,
  done: string,
): Promise<AdminOrder> {
  try {
    return await call<AdminOrder>('POST', `/admin/orders/${id}/${path}`, { body, ifMatch: `"${version}"` })
  } catch (error) {
    if (!isRefusal(error, 'precondition_failed', 'illegal_transition')) throw error
    throw new Overtaken(explainOvertaken(await call<Schemas['AdminOrderDetail']>('GET', `/admin/orders/${id}`), done))
  }
}

function explainOvertaken({ number, status, version, status_history }: Schemas['AdminOrderDetail'], done: string): string {
  const last = status_history.at(-1)
  const who = last === undefined ? '' : ` by ${actorText(last.actor)}`
  return `Order ${number} was not ${done}: it was changed meanwhile. It is ${status} (version ${version})${who}. This is the order as it is now.`
}

/**
 * Moves each order from the version that the operator sees, some in each request. `onResults` gets the results of each request: when a later one
 * throws, those stand, and the others can be sent again with the same reference.
 */
export async function moveManyOrders(
  orders: readonly AdminOrder[],
  transition: Transition,
  onResults: (results: readonly (MoveResult & { order: AdminOrder })[]) => void,
): Promise<void> {
  for (let start = 0; start < orders.length; start += AT_ONCE) {
    const part = orders.slice(start, start + AT_ONCE)
    const lines = part.map(({ id, version }) => JSON.stringify({ order_id: id, version, ...transition }))
    const answer = await send('POST', '/admin/orders/transitions', { body: lines.join('\n'), contentType: 'application/x-ndjson' })
    const results = (await answer.text()).split('\n').filter((line) => line !== '')
    onResults(
      results.flatMap((text) => {
        const result: MoveResult = JSON.parse(text)
        const order = part[result.line - 1]
        return order === undefined ? [] : [{ ...result, order }]
      }),
    )
  }
}

import { api, isProblem, read, type Schemas } from '../kit/api.ts'
import { t, word } from '../kit/language.ts'
import type { Order } from './order-parts.ts'

/** The changes of an order that another operator's change can overtake. */
type Change =
  | { path: 'transitions'; body: Schemas['Transition'] }
  | { path: 'shipments'; body: Schemas['NewShipment'] }
  | { path: 'cancellations'; body: Schemas['NewCancellation'] }
  | { path: 'returns'; body: Schemas['NewReturn'] }

const WHO = { admin: t`an operator`, key: t`an API key`, customer: t`the customer`, system: t`the store` }

/** Another operator was faster. The order differs from what this operator saw, and nothing was changed. */
class Overtaken extends Error {
  readonly order: Order
  constructor(order: Order, message: string) {
    super(message)
    this.order = order
  }
}

/** Repeated attempts at one change. */
export interface Attempts {
  /** The state of the order that the operator sees. */
  seen(): Order
  /** Runs the change. If another operator was faster, the next attempt uses the new state of the order. */
  make(work: (seen: Order) => Promise<void>): Promise<void>
}

/** `refresh` is called after a change, and after another operator was faster. */
export function attemptsAt(order: Order, refresh: () => void): Attempts {
  let seen = order
  return {
    seen: () => seen,
    async make(work) {
      try {
        await work(seen)
      } catch (error) {
        if (error instanceof Overtaken) {
          seen = error.order
          refresh()
        }
        throw error
      }
      refresh()
    },
  }
}

/** The parameters of a call that changes an order only at the version that the operator sees. */
export function atVersion({ id, version }: Pick<Order, 'id' | 'version'>) {
  return { path: { id }, header: { 'if-match': `"${version}"` } }
}

/**
 * Changes the order only at the version that the operator sees. `done` is the outcome, such as `shipped`. Throws
 * Overtaken.
 */
export async function changeOrder(order: Order, { path, body }: Change, done: string): Promise<Order> {
  const params = atVersion(order)
  try {
    switch (path) {
      case 'transitions':
        return await read(api.POST('/admin/orders/{id}/transitions', { params, body }))
      case 'shipments':
        return await read(api.POST('/admin/orders/{id}/shipments', { params, body }))
      case 'cancellations':
        return await read(api.POST('/admin/orders/{id}/cancellations', { params, body }))
      case 'returns':
        return await read(api.POST('/admin/orders/{id}/returns', { params, body }))
    }
  } catch (error) {
    if (!isProblem(error, 'precondition_failed') && !isProblem(error, 'illegal_transition')) throw error
    const now = await readOrder(order.id)
    throw new Overtaken(now, explainOvertaken(now, done))
  }
}

export function readOrder(id: string): Promise<Schemas['AdminOrderDetail']> {
  return read(api.GET('/admin/orders/{id}', { params: { path: { id } } }))
}

function explainOvertaken({ number, status, status_history }: Order, done: string): string {
  const who = WHO[status_history.at(-1)?.actor.type ?? 'system']
  const hint = t`What you entered is kept: send it again only if it is still right.`
  return t`Order ${number} was not ${word(done)}: it was changed meanwhile by ${who}. It is ${word(status)} now. ${hint}`
}

export type MoveResult =
  | { line: number; order_id: string; ok: true; status: string; version: number; repeated?: true }
  | { line: number; order_id: string | null; ok: false; code: string; detail: string }

/** Orders per request. Each answer shows progress, and a lost answer concerns few orders. */
const AT_ONCE = 50

export interface Move {
  order: Order
  transition: Schemas['Transition']
}

/**
 * Moves each order from the version that the operator sees, in several requests. `onResults` gets each request's
 * results. After an error they stay valid, and the rest can be sent again with the same reference.
 */
export async function moveMany<M extends Move>(
  moves: readonly M[],
  onResults: (results: readonly { move: M; result: MoveResult }[]) => void,
): Promise<void> {
  for (let start = 0; start < moves.length; start += AT_ONCE) {
    const part = moves.slice(start, start + AT_ONCE)
    const body = part.map(({ order: { id, version }, transition }) => JSON.stringify({ order_id: id, version, ...transition })).join('\n')
    const text = await read(
      api.POST('/admin/orders/transitions', {
        ...{ body, bodySerializer: (lines: string) => lines, parseAs: 'text' as const },
        headers: { 'content-type': 'application/x-ndjson' },
      }),
    )
    const results = text.split('\n').filter((line) => line !== '')
    onResults(
      results.flatMap((line) => {
        const result: MoveResult = JSON.parse(line)
        const move = part[result.line - 1]
        return move === undefined ? [] : [{ move, result }]
      }),
    )
  }
}

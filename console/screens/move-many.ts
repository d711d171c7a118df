import { type OrderStatus, ruleOf } from '../../src/orders/order-status.ts'
import { explain } from '../kit/api.ts'
import { type Dialog, openDialog } from '../kit/dialog.ts'
import { type Content, html, nothing, table } from '../kit/html.ts'
import { capitalized, plural, t, word } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { type MoveResult, moveMany } from './order-changes.ts'
import { openMoveDialog } from './order-dialogs.ts'
import type { Order } from './order-parts.ts'
import { orderAddress } from './parts.ts'

interface Refusal {
  order: Order
  detail: string
}

/**
 * Asks for the details of a move of many orders, and makes the move. Each order moves from the version that the
 * operator sees, so a change made meanwhile is refused and not overwritten. `onEnd` gets the refused orders.
 */
export function openMoveOfMany(
  orders: readonly Order[],
  to: OrderStatus,
  { signal, tell }: ScreenContext,
  onEnd: (refused: readonly Order[]) => void,
): void {
  const results = new Map<string, MoveResult>()
  let show = () => {}
  openMoveDialog({
    title: capitalized(t`${word(ruleOf(to).action)} ${plural(orders.length, t`${orders.length} order`, t`${orders.length} orders`)}`),
    to,
    signal,
    more: () => progress(results.size, orders.length),
    isAsking: (update) => {
      show = update
    },
    onMove: async (transition) => {
      const unsent = orders.filter(({ id }) => !results.has(id)).map((order) => ({ order, transition }))
      try {
        await moveMany(unsent, (part) => {
          for (const { move, result } of part) results.set(move.order.id, result)
          show()
        })
      } catch (error) {
        const hint = transition.reference === undefined ? '' : t`With this reference no order is changed twice.`
        throw new Error(t`${explain(error)} ${results.size} of ${orders.length} orders have a result. ${hint}`)
      }
      const refused = orders.flatMap((order): Refusal[] => {
        const result = results.get(order.id)
        return result === undefined || result.ok ? [] : [{ order, detail: result.detail }]
      })
      tell(doneText([...results.values()], to, refused.length))
      onEnd(refused.map(({ order }) => order))
      // The first dialog closes before this one opens, so the focus is in this one.
      if (refused.length > 0) setTimeout(() => showRefusals(refused, signal))
    },
  })
}

/** The progress of a change of many orders. It shows nothing before the first result. */
export function progress(done: number, all: number): Content {
  if (done === 0) return nothing
  return html`<progress aria-label="Orders sent" max=${all} .value=${done}></progress>
    <span role="status">${done} of ${all}</span>`
}

/** The text of the outcome, such as `59 orders are confirmed. 1 was refused.` */
export function doneText(results: readonly MoveResult[], to: OrderStatus, refused: number): string {
  const done = results.filter(({ ok }) => ok).length
  const before = results.filter((result) => result.ok && result.repeated).length
  const state = word(to)
  const repeated =
    before === done
      ? t`All of them were so already.`
      : plural(before, t`${before} of them was so already.`, t`${before} of them were so already.`)
  return [
    plural(done, t`${done} order is ${state}.`, t`${done} orders are ${state}.`),
    ...(before === 0 ? [] : [repeated]),
    ...(refused === 0 ? [] : [plural(refused, t`${refused} was refused.`, t`${refused} were refused.`)]),
  ].join(' ')
}

function showRefusals(refused: readonly Refusal[], signal: AbortSignal): void {
  const title = plural(refused.length, t`${refused.length} order was refused`, t`${refused.length} orders were refused`)
  const columns = [
    { title: t`Order`, cell: ({ order: { id, number } }: Refusal) => html`<a href=${orderAddress(id)}>${number}</a>` },
    { title: t`Reason`, cell: ({ detail }: Refusal) => detail },
  ]
  openDialog(
    title,
    signal,
    ({ close }: Dialog) =>
      () =>
        html`<p>Nothing was changed in them, and they stay selected.</p>
      ${table(title, columns, refused, ({ order }) => order.id)}
      <div class="actions"><button type="button" autofocus @click=${close}>Close</button></div>`,
  )
}

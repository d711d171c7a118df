import { ORDER_STATUSES } from '#order-status'
import { actions, create, link, replaceChildren, table } from './dom.ts'
import { explainError, labelled } from './form.ts'
import type { LoadedOrders } from './loaded-orders.ts'
import { openMoveDialog } from './move-fields.ts'
import { type MoveResult, moveManyOrders } from './move-orders.ts'
import { type AdminOrder, type OrderStatus, orderAddress } from './order-parts.ts'
import type { ScreenContext } from './screen.ts'

type Result = MoveResult & { order: AdminOrder }

export interface SelectionBarOptions extends Pick<ScreenContext, 'signal' | 'report' | 'tell'> {
  orders: () => LoadedOrders
  /** The selection has changed. */
  onSelect: () => void
  /** Orders have moved: they are asked for again. */
  onMoved: () => void
}

/** What can be done with the chosen orders, and the result of each line of the last move. */
export function selectionBar({ orders, signal, onSelect, onMoved, tell }: SelectionBarOptions): { element: HTMLElement; show(): void } {
  const all = create('input', { type: 'checkbox' })
  const text = create('span', { attributes: { role: 'status' } })
  const status = create('select', {})
  const move = create('button', { type: 'button' }, 'Move selected…')
  const results = create('div')
  const bar = actions(create('label', {}, all, ' Select all shown'), text, labelled('Move to', status), move)

  function show(): void {
    const { chosen, list } = orders()
    all.checked = list.length > 0 && chosen.length === list.length
    all.indeterminate = chosen.length > 0 && chosen.length < list.length
    text.textContent = chosen.length === 0 ? 'No order is selected.' : `${chosen.length} selected`
    const options = ORDER_STATUSES.flatMap((to): [OrderStatus, string][] => {
      const able = chosen.filter(({ allowed_transitions }) => allowed_transitions.includes(to)).length
      return able === 0 ? [] : [[to, able === chosen.length ? to : `${to} (${able} of ${chosen.length} can)`]]
    })
    const before = status.value
    replaceChildren(status, ...options.map(([value, label]) => create('option', { value }, label)))
    if (options.some(([value]) => value === before)) status.value = before
    status.disabled = move.disabled = options.length === 0
  }

  all.addEventListener('change', () => {
    const { list, selected } = orders()
    selected.clear()
    if (all.checked) for (const { id } of list) selected.add(id)
    onSelect()
  })
  move.addEventListener('click', () => {
    const loaded = orders()
    openMoveOfMany({
      orders: loaded.chosen,
      to: status.value as OrderStatus,
      signal,
      onEnd: (done) => {
        for (const { ok, order } of done) if (ok) loaded.selected.delete(order.id)
        const failed = done.filter(({ ok }) => !ok).length
        tell(`Orders moved: ${done.length - failed}. ${failed === 0 ? '' : `Refused: ${failed}, with the reason below.`}`)
        replaceChildren(results, resultTable(done))
        onSelect()
        onMoved()
      },
    })
  })
  show()
  return { element: create('div', {}, bar, results), show }
}

interface MoveOfMany {
  /** Orders in the state that the operator sees: a change made while the dialog is open is refused, not overwritten. */
  orders: readonly AdminOrder[]
  to: OrderStatus
  signal: AbortSignal
  onEnd: (results: readonly Result[]) => void
}

function openMoveOfMany({ orders, to, signal, onEnd }: MoveOfMany): void {
  const results = new Map<string, Result>()
  const progress = create('progress', { max: orders.length, value: 0, hidden: true, attributes: { 'aria-label': 'Orders sent' } })
  const text = create('span', { attributes: { role: 'status' } })
  openMoveDialog(
    {
      title: `Move ${orders.length} orders to ${to}`,
      to,
      hasTracking: false,
      signal,
      onMove: async (transition) => {
        progress.hidden = false
        const unsent = orders.filter(({ id }) => !results.has(id))
        try {
          await moveManyOrders(unsent, transition, (part) => {
            for (const result of part) results.set(result.order.id, result)
            progress.value = results.size
            text.textContent = `${results.size} of ${orders.length}`
          })
        } catch (error) {
          const hint = transition.reference === undefined ? '' : ' With this reference no order is moved twice.'
          throw new Error(`${explainError(error as Error)} ${results.size} of ${orders.length} orders have a result.${hint}`)
        }
        onEnd([...results.values()])
      },
    },
    progress,
    text,
  )
}

function resultTable(results: readonly Result[]): HTMLElement {
  const failed = results.filter(({ ok }) => !ok)
  const rows = [...failed, ...results.filter(({ ok }) => ok)].map((result) => [
    link(orderAddress(result.order.id), result.order.number),
    result.ok ? (result.repeated ? `was ${result.status} already` : `is ${result.status}`) : 'not moved',
    result.ok ? `version ${result.version}` : result.detail,
  ])
  return create(
    'details',
    { open: failed.length > 0 },
    create('summary', {}, `Result of the last move: ${results.length - failed.length} moved, ${failed.length} refused`),
    table('Result of the last move', ['Order', 'Result', 'Detail'], rows),
  )
}

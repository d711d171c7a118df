import { type Schemas, withQuery } from './api.ts'
import { amountText, create, note, replaceChildren, timeElement } from './dom.ts'
import { keyedTable } from './keyed-table.ts'
import { type AdminOrder, orderAddress } from './order-parts.ts'
import { poll } from './poll.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

const POLL_SECONDS = 10
const SHOWN = 10

/** The newest orders of a customer, and the way to all of them. */
export function customerOrders(customerId: string, { signal, report }: Pick<ScreenContext, 'signal' | 'report'>): HTMLElement {
  const columns = ['Number', 'Placed', 'Status', { number: 'Total' }, 'For']
  const rows = keyedTable<AdminOrder>('Newest orders', columns, {
    keyOf: ({ id }) => id,
    cellsOf: ({ id, number, created_at, status, total, shipping_address }) => [
      create('a', { href: orderAddress(id) }, number),
      timeElement(created_at),
      stateBadge(status),
      amountText(total),
      shipping_address?.name ?? '–',
    ],
  })
  const content = create('div')
  const all = create('a', { href: withQuery('#orders', { user_id: customerId }) }, 'All orders of this customer')
  poll<Schemas['AdminOrderPage']>(withQuery('/admin/orders', { user_id: customerId, limit: SHOWN }), {
    seconds: POLL_SECONDS,
    signal,
    onError: report,
    onChange: ({ data }) => {
      rows.show(data)
      if (data.length === 0) replaceChildren(content, note('No orders.'))
      else if (!content.contains(rows.element)) replaceChildren(content, rows.element, create('p', {}, all))
    },
  })
  return create('section', { class: 'card wide' }, create('h3', {}, 'Newest orders'), content)
}

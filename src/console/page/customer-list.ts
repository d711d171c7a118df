import { type Schemas, withQuery } from './api.ts'
import { customerAddress, customerState, sumsText } from './customer-parts.ts'
import { create, timeElement } from './dom.ts'
import { keyedTable } from './keyed-table.ts'
import { pagedList } from './paged-list.ts'
import type { ScreenContext } from './screen.ts'

type Customer = Schemas['Customer']
type Filters = Readonly<Record<string, string>>

const NAMES = ['email', 'number', 'id'] as const
const POLL_SECONDS = 30

/** `#orders?customers=1`: customers and guests, by address where it is searched, else the newest first. The address has filters and page. */
export function showCustomerList(root: HTMLElement, context: ScreenContext): void {
  const { parameters } = context
  const filters = Object.fromEntries(NAMES.flatMap((name) => (parameters.get(name) ? [[name, parameters.get(name) ?? '']] : [])))
  const columns = ['Customer', 'E-mail', 'State', { number: 'Orders' }, 'Spent', 'Last order', 'Since']
  const rows = keyedTable<Customer>('Customers', columns, {
    keyOf: ({ id }) => id,
    cellsOf: (customer) => [
      create('a', { href: customerAddress(customer.id) }, customer.name ?? 'no name'),
      customer.email,
      customerState(customer),
      `${customer.orders.count.toLocaleString()}${customer.orders.is_complete ? '' : ' or more'}`,
      sumsText(customer.orders),
      timeElement(customer.orders.last_order_at),
      timeElement(customer.created_at),
    ],
  })
  const list = pagedList(
    {
      ...{ path: '/admin/customers', filters, seconds: POLL_SECONDS, rows },
      addressOf: (page) => listAddress({ ...filters, ...page }),
      words: { more: 'More customers', none: 'No customer matches.' },
    },
    context,
  )
  root.append(
    create('a', { href: '#orders' }, '← All orders'),
    create('h2', {}, 'Orders: customers'),
    searchForm(filters),
    ...list.elements,
  )
}

function listAddress(filters: Filters): string {
  return withQuery('#orders', { customers: 1, ...filters })
}

function searchForm(filters: Filters): HTMLElement {
  const text = (name: string, size: number) => create('input', { name, value: filters[name] ?? '', size, autocomplete: 'off' })
  const number = Object.assign(text('number', 8), {
    inputMode: 'numeric',
    pattern: '\\s*#?[0-9]{1,18}\\s*',
    title: 'Digits, with or without #',
  })
  const form = create(
    'form',
    { class: 'filters', attributes: { role: 'search', 'aria-label': 'Customers' } },
    create('label', {}, 'E-mail begins with ', Object.assign(text('email', 24), { maxLength: 254 })),
    create('label', {}, 'Number of an order ', number),
    create('label', {}, 'Id ', text('id', 20)),
    create('button', { type: 'submit', class: 'primary' }, 'Search'),
    Object.keys(filters).length > 0 && create('a', { href: listAddress({}) }, 'Clear filters'),
  )
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const data = new FormData(form)
    const given = NAMES.map(
      (name) =>
        [
          name,
          String(data.get(name) ?? '')
            .trim()
            .replace(/^#/, ''),
        ] as const,
    )
    location.hash = listAddress(Object.fromEntries(given))
  })
  return form
}

import { type Schemas, withQuery } from './api.ts'
import { customerAddress, customerState, sumsText } from './customer-parts.ts'
import { create, keyedTable, link, timeElement } from './dom.ts'
import { labelled, searchForm, textInput } from './form.ts'
import { orderNumberInput, searchInput } from './order-filters.ts'
import { pagedList } from './paged-list.ts'
import type { ScreenContext } from './screen.ts'

type Customer = Schemas['Customer']
type Filters = Readonly<Record<string, string>>

const NAMES = ['q', 'email', 'number', 'id'] as const
const POLL_SECONDS = 30

/** `#orders?customers=1`: customers and guests, by address where it is searched, else the newest first. The page's URL has the filters and the cursor. */
export function showCustomerList(root: HTMLElement, context: ScreenContext): void {
  const { parameters } = context
  const filters = Object.fromEntries(NAMES.flatMap((name) => (parameters.get(name) ? [[name, parameters.get(name) ?? '']] : [])))
  const columns = ['Customer', 'E-mail', 'State', { number: 'Orders' }, 'Spent', 'Last order', 'Since']
  const rows = keyedTable<Customer>('Customers', columns, {
    keyOf: ({ id }) => id,
    cellsOf: (customer) => [
      link(customerAddress(customer.id), customer.name ?? 'no name'),
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
  root.append(link('#orders', '← All orders'), create('h2', {}, 'Orders: customers'), filterForm(filters), ...list.elements)
}

function listAddress(filters: Filters): string {
  return withQuery('#orders', { customers: 1, ...filters })
}

function filterForm(filters: Filters): HTMLElement {
  const onSearch = ({ number = '', ...others }: Record<string, string>) => {
    location.hash = listAddress({ ...others, number: number.replace(/^#/, '') })
  }
  return searchForm(
    'Customers',
    onSearch,
    labelled('Search', searchInput(filters.q ?? '', 'Name, e-mail, phone, postal code, tracking, reference')),
    labelled('E-mail begins with', textInput('email', { value: filters.email ?? '', size: 24, maxLength: 254 })),
    labelled('Number of an order', orderNumberInput(filters.number ?? '')),
    labelled('Id', textInput('id', { value: filters.id ?? '', size: 20 })),
    create('button', { type: 'submit', class: 'primary' }, 'Search'),
    Object.keys(filters).length > 0 && link(listAddress({}), 'Clear filters'),
  )
}

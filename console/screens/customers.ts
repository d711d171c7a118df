import { addressOf } from '../kit/address.ts'
import { api, type Schemas } from '../kit/api.ts'
import { confirmAction, openFormDialog } from '../kit/dialog.ts'
import { follow } from '../kit/follow.ts'
import { field } from '../kit/form.ts'
import { badge, type Content, card, facts, html, menu, money, note, nothing, table, time } from '../kit/html.ts'
import { numberText, plural, t } from '../kit/language.ts'
import { resourceList } from '../kit/resource-list.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { changes } from './changes.ts'
import { openNewOrder } from './new-order.ts'
import { customerAddress, customerState, languageName, orderAddress, orderNumberFilter, ordersText, stateBadge, sumsText } from './parts.ts'

type Customer = Schemas['Customer']

const LIST_SECONDS = 30
const SECONDS = 10
const SHOWN_ORDERS = 10

/** `#customers` lists customers and guests, and `?customer=ID` shows one. */
export const customers: Screen = {
  title: t`Customers`,
  scopes: ['customers:read'],
  open(context) {
    const id = context.parameters.get('customer')
    return id === null ? customerList(context) : customerView(id, context)
  },
}

function customerList(context: ScreenContext): () => Content {
  return resourceList<Customer>(
    {
      title: t`Customers`,
      screen: 'customers',
      seconds: LIST_SECONDS,
      ask: (query, init) => api.GET('/admin/customers', { ...init, params: { query } }),
      keyOf: ({ id }) => id,
      hrefOf: ({ id }) => customerAddress(id),
      search: t`Name, e-mail, phone, postal code, tracking, reference`,
      filters: [{ name: 'email', label: t`E-mail begins with` }, orderNumberFilter(t`Number of an order`), { name: 'id', label: t`Id` }],
      columns: [
        { title: t`Customer`, cell: ({ name }) => name ?? t`no name` },
        { title: t`E-mail`, cell: ({ email }) => email },
        { title: t`State`, cell: customerState },
        { title: t`Orders`, number: true, cell: ({ orders }) => ordersText(orders) },
        { title: t`Spent`, number: true, cell: ({ orders }) => sumsText(orders.totals) },
        { title: t`Last order`, cell: ({ orders }) => time(orders.last_order_at) },
        { title: t`Since`, cell: ({ created_at }) => time(created_at) },
      ],
      words: {
        count: (count) => plural(count, t`${count} customer`, t`${count} customers`),
        none: t`No customers yet: they are listed when they register or order.`,
        noMatch: t`No customer matches.`,
      },
    },
    context,
  )
}

/** A customer or guest: the person, the orders, and the possible actions on the account. */
function customerView(id: string, context: ScreenContext): () => Content {
  const { signal, may, tell, title } = context
  const params = { path: { id } }
  const ask = (init: object) => api.GET('/admin/customers/{id}', { ...init, params })
  const onChange = ({ name, email }: Customer) => title(t`Customer ${name ?? email}`)
  // The store refuses the id of an erased customer or of an operator's account.
  const customer = follow(context, ask, { seconds: SECONDS, onChange, endsAt: [400, 404] })
  customer.refresh()
  const orders = newestOrders(id, context)
  const changed = changes({ type: 'account', id }, context)

  function askForReason({ blocked_at, blocked_reason, email }: Customer): void {
    const onSubmit = async (data: FormData) => {
      await api.POST('/admin/customers/{id}/block', { params, body: { reason: String(data.get('reason')) } })
      tell(t`The customer is blocked.`)
      customer.refresh()
    }
    const submit = blocked_at === null ? t`Block` : t`Change the reason`
    openFormDialog(
      { title: t`Block ${email}`, submit, danger: true, signal, onSubmit },
      () => () =>
        html`
      <p>All sessions of the customer end, and the customer cannot log in. Orders stay as they are.</p>
      ${field(
        t`Reason`,
        html`<textarea name="reason" maxlength="500" rows="3" required .defaultValue=${blocked_reason ?? ''}></textarea>`,
        t`For operators only: the customer never sees it. It is erased with the account.`,
      )}`,
    )
  }

  async function unblock({ email }: Customer): Promise<void> {
    const text = [t`The customer can log in again.`]
    if (!(await confirmAction({ title: t`Unblock ${email}?`, text, action: t`Unblock` }, signal))) return
    await api.POST('/admin/customers/{id}/unblock', { params })
    tell(t`The customer is not blocked any more.`)
    customer.refresh()
  }

  /** Erasing cannot be undone, so the operator must type the address. */
  function askToErase({ email }: Customer): void {
    const onSubmit = async (data: FormData) => {
      if (String(data.get('email')).trim() !== email) throw new Error(t`Type the e-mail address exactly as it is shown above.`)
      await api.DELETE('/admin/customers/{id}', { params })
      location.hash = '#customers'
      tell(t`${email} is erased.`)
    }
    openFormDialog(
      { title: t`Erase ${email}`, submit: t`Erase for ever`, danger: true, signal, onSubmit },
      () => () =>
        html`
      <p>Name, address, sign-ins and sessions are erased at once. Orders stay, and their delivery addresses are erased after the retention
        period.</p>
      <p>This cannot be undone.</p>
      ${field(t`Type the e-mail address to confirm`, html`<input name="email" autocomplete="off" required>`)}`,
    )
  }

  const buttons = (shown: Customer) => html`
    ${
      shown.blocked_at === null
        ? nothing
        : html`<button type="button" @click=${() => askForReason(shown)}>Change the reason…</button>
          <button type="button" @click=${context.act(() => unblock(shown))}>Unblock…</button>`
    }
    ${menu(
      t`More`,
      shown.blocked_at === null ? html`<button type="button" class="danger" @click=${() => askForReason(shown)}>Block…</button>` : nothing,
      html`<button type="button" class="danger" @click=${() => askToErase(shown)}>Erase…</button>`,
    )}`

  const orderButton = (shown: Customer) => html`<button type="button" @click=${() => openNewOrder(context, shown)}>New order…</button>`

  return () => html`
    <a href="#customers">← All customers</a>
    ${customer.show(
      (shown) => html`<div class="title"><h2>${shown.name ?? shown.email}</h2>
          <div class="actions">${customerState(shown)}${may('orders:place') && shown.blocked_at === null ? orderButton(shown) : nothing}${may('customers:write') ? buttons(shown) : nothing}</div></div>
        <div class="cards">${card(t`Account`, customerFacts(shown))}${orders()}</div>`,
    )}
    ${changed()}`
}

function customerFacts(customer: Customer): Content {
  const { name, email, is_email_verified, language, owner_id, blocked_at, blocked_reason, created_at, orders } = customer
  return facts(
    [t`Name`, name ?? '–'],
    [t`E-mail`, html`${email} ${is_email_verified ? badge(t`proven`, 'good') : badge(t`not proven`, 'waiting')}`],
    [t`Language`, language === null ? t`the store's` : languageName(language)],
    [t`Orders of`, owner_id === null ? nothing : html`<a href=${customerAddress(owner_id)}>the account that has taken this guest over</a>`],
    [t`Blocked`, blocked_at === null ? t`no` : time(blocked_at)],
    [t`Reason`, blocked_reason],
    [t`Since`, time(created_at)],
    [t`Orders`, orders.is_complete ? numberText(orders.count) : t`${orders.count} or more; the sums are of the newest`],
    [t`Spent`, html`${sumsText(orders.totals)} <small class="muted">without cancelled and returned orders</small>`],
    [t`Last order`, time(orders.last_order_at)],
    [t`Id`, customer.id],
  )
}

function newestOrders(customerId: string, context: ScreenContext): () => Content {
  const query = { user_id: customerId, limit: SHOWN_ORDERS }
  const orders = follow(context, (init) => api.GET('/admin/orders', { ...init, params: { query } }), { seconds: SECONDS })
  orders.refresh()
  const columns = [
    { title: t`Number`, cell: ({ id, number }: Schemas['AdminOrder']) => html`<a href=${orderAddress(id)}>${number}</a>` },
    { title: t`Placed`, cell: ({ created_at }: Schemas['AdminOrder']) => time(created_at) },
    { title: t`Status`, cell: ({ status }: Schemas['AdminOrder']) => stateBadge(status) },
    { title: t`Total`, number: true, cell: ({ total }: Schemas['AdminOrder']) => money(total) },
    { title: t`For`, cell: ({ shipping_address }: Schemas['AdminOrder']) => shipping_address?.name ?? '–' },
  ]
  const all = html`<p><a href=${addressOf('orders', { user_id: customerId })}>All orders of this customer</a></p>`
  return () => {
    const shown = orders.show(({ data }) =>
      data.length === 0 ? note(t`No orders.`) : html`${table(t`Newest orders`, columns, data, ({ id }) => id)}${all}`,
    )
    return card(t`Newest orders`, shown, { wide: true })
  }
}

import { pathOf, poll, restartable, type Schemas, send, withQuery } from './api.ts'
import { changesFoldOut } from './changes.ts'
import { customerAddress, customerState, sumsText } from './customer-parts.ts'
import { confirmAction, openFormDialog } from './dialog.ts'
import { amountText, badge, button, create, facts, keyedTable, link, note, replaceChildren, timeElement } from './dom.ts'
import { field, textInput } from './form.ts'
import { type AdminOrder, orderAddress } from './order-parts.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

type Customer = Schemas['Customer']

const POLL_SECONDS = 10

/** One customer or guest: who, what they ordered, what may be done with the account. It keeps itself up to date. */
export function showCustomer(root: HTMLElement, customerId: string, context: ScreenContext): void {
  const { signal, may, report, tell } = context
  const path = pathOf`/admin/customers/${customerId}`
  const title = create('h2', {}, 'Orders: customer')
  const head = create('div', { class: 'actions' })
  const account = create('section', { class: 'card' })
  replaceChildren(
    root,
    link('#orders?customers=1', '← All customers'),
    title,
    head,
    create('div', { class: 'cards' }, account, customerOrders(customerId, context)),
    changesFoldOut({ type: 'account', id: customerId }, context),
  )

  function show(customer: Customer): void {
    title.textContent = `Orders: customer ${customer.name ?? customer.email}`
    const focused = head.contains(document.activeElement) ? document.activeElement?.textContent : null
    const buttons = may('customers:write') ? changeButtons(customer) : []
    replaceChildren(head, customerState(customer), ...buttons)
    buttons.find(({ textContent }) => textContent === focused)?.focus()
    replaceChildren(account, create('h3', {}, 'Account'), customerFacts(customer))
  }

  function changeButtons(customer: Customer): HTMLButtonElement[] {
    const erase = button('Erase…', () => askToErase(customer))
    if (customer.blocked_at === null) return [button('Block…', () => askForReason(customer)), erase]
    return [button('Change the reason…', () => askForReason(customer)), button('Unblock…', () => unblock(customer), report), erase]
  }

  function askForReason({ blocked_at, blocked_reason, email }: Customer): void {
    const reason = create('textarea', { name: 'reason', maxLength: 500, rows: 3, required: true, value: blocked_reason ?? '' })
    const onSubmit = async () => {
      await send('POST', `${path}/block`, { body: { reason: reason.value } })
      tell('The customer is blocked.')
      refresh()
    }
    openFormDialog(
      { title: `Block ${email}`, submit: blocked_at === null ? 'Block' : 'Change the reason', signal, onSubmit },
      create('p', {}, 'All sessions of the customer end, and the customer cannot log in. Orders stay as they are.'),
      field('Reason', reason, 'For operators only: the customer never sees it. It is erased with the account.'),
    )
  }

  async function unblock({ email }: Customer): Promise<void> {
    const text = ['The customer can log in again.']
    if (!(await confirmAction({ title: `Unblock ${email}?`, text, action: 'Unblock' }, signal))) return
    await send('POST', `${path}/unblock`)
    tell('The customer is not blocked any more.')
    refresh()
  }

  /** Erasing cannot be undone, so the operator types the address. */
  function askToErase({ email }: Customer): void {
    const typed = textInput('email', { required: true })
    const onSubmit = async () => {
      if (typed.value.trim() !== email) throw new Error('Type the e-mail address exactly as it is shown above.')
      await send('DELETE', path)
      location.hash = '#orders?customers=1'
    }
    openFormDialog(
      { title: `Erase ${email}`, submit: 'Erase for ever', signal, onSubmit },
      create(
        'p',
        {},
        'Name, address, sign-ins and sessions are erased at once. Orders stay, and their delivery addresses are erased after the retention period.',
      ),
      create('p', {}, 'This cannot be undone.'),
      field('Type the e-mail address to confirm', typed),
    )
  }

  const refresh = restartable(signal, (until) => {
    // Erased, or an operator's account.
    void poll<Customer>(path, { seconds: POLL_SECONDS, signal: until, onChange: show, onError: report, endsAt: [400, 404] })
  })
  refresh()
}

function customerFacts(customer: Customer): HTMLElement {
  const { name, email, is_email_verified, language, owner_id, blocked_at, blocked_reason, created_at, orders } = customer
  const count = `${orders.count.toLocaleString()}${orders.is_complete ? '' : ' or more; the sums are of the newest'}`
  return facts(
    ['Name', name ?? '–'],
    ['E-mail', create('span', {}, `${email} `, is_email_verified ? badge('proven', 'good') : badge('not proven', 'waiting'))],
    ['Language', language === null ? 'that of the store' : (new Intl.DisplayNames('en', { type: 'language' }).of(language) ?? language)],
    ['Orders of', owner_id === null ? null : link(customerAddress(owner_id), 'the account that has taken this guest over')],
    ['Blocked', blocked_at === null ? 'no' : timeElement(blocked_at)],
    ['Reason', blocked_reason],
    ['Since', timeElement(created_at)],
    ['Orders', count],
    ['Spent', create('span', {}, sumsText(orders), create('small', { class: 'muted' }, ' without cancelled and returned orders'))],
    ['Last order', timeElement(orders.last_order_at)],
    ['Id', customer.id],
  )
}

const SHOWN = 10

/** The newest orders of a customer, and the way to all of them. */
function customerOrders(customerId: string, { signal, report }: Pick<ScreenContext, 'signal' | 'report'>): HTMLElement {
  const columns = ['Number', 'Placed', 'Status', { number: 'Total' }, 'For']
  const rows = keyedTable<AdminOrder>('Newest orders', columns, {
    keyOf: ({ id }) => id,
    cellsOf: ({ id, number, created_at, status, total, shipping_address }) => [
      link(orderAddress(id), number),
      timeElement(created_at),
      stateBadge(status),
      amountText(total),
      shipping_address?.name ?? '–',
    ],
  })
  const content = create('div')
  const all = link(withQuery('#orders', { user_id: customerId }), 'All orders of this customer')
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

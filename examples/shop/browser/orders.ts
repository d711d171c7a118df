import { html, nothing, render, type TemplateResult } from 'lit-html'
import { type Order, ProblemError } from '../store.ts'
import { attempt } from './dialog.ts'
import { STATUSES } from './order.ts'
import { href, money, reloadOnSignIn, shop, showSession, t, view } from './session.ts'
import { signIn } from './sign-in.ts'

const POLL_MS = 5_000

/** The customer's orders. Their status is read again and again while the page is open. */
export async function showOrders(root: HTMLElement): Promise<void> {
  let orders: Order[] = []
  let cursor: string | null = null
  let isOlder = false
  let problem = ''

  const draw = () =>
    render(
      html`<p class="error" role="alert"></p>
${problem === '' ? nothing : html`<p class="error" role="alert">${problem}</p>`}
${orders.length === 0 && problem === '' ? html`<p>${t('No orders yet.')}</p>` : html`<ul id="order-list" class="rows" aria-label=${t('Orders')}>${orders.map(row)}</ul>`}
${cursor === null ? nothing : html`<p class="actions"><button type="button" @click=${showOlder}>${t('Show older orders')}</button></p>`}`,
      root,
    )
  const showOlder = (event: Event) =>
    attempt(event, async () => {
      const wasOlder = isOlder
      // The list is not refreshed while this is true.
      isOlder = true
      try {
        const page = await shop.orderPage(cursor === null ? {} : { cursor })
        ;[orders, cursor] = [[...orders, ...page.data], page.next_cursor]
      } catch (error) {
        isOlder = wasOlder
        throw error
      }
      draw()
    })
  const refresh = async () => {
    try {
      const page = await shop.orderPage()
      if (isOlder) return
      ;[orders, cursor, problem] = [page.data, page.next_cursor, '']
    } catch (error) {
      if (error instanceof ProblemError && error.status === 401) return endOfSession()
      problem = t('The orders could not be loaded. The next attempt follows.')
    }
    draw()
  }
  let poll: ReturnType<typeof setInterval> | undefined
  const endOfSession = async () => {
    clearInterval(poll)
    render(html`<p>${t('Sign in to see your orders.')}</p>`, root)
    await showSession()
    reloadOnSignIn()
  }
  if (!(await signIn(t('Sign in to see your orders.')))) return endOfSession()
  // Older pages stay as they were loaded. Only a list of just the first page is refreshed.
  poll = setInterval(() => !document.hidden && !isOlder && refresh(), POLL_MS)
  await refresh()
}

function row({ id, number, status, total, items, created_at, refunded }: Order): TemplateResult {
  const date = new Date(created_at).toLocaleDateString(view.lang, { dateStyle: 'medium' })
  return html`<li>
<span class="grow"><a href=${href('/order', { id })}>${t('Order {}', number)}</a> <small>${date}</small>
<small>${items.map(({ quantity, name }) => `${quantity} × ${name}`).join(', ')}</small></span>
<span>${t(STATUSES[status])}</span>
<span class="sum">${money(total)}${refunded !== null && refunded.amount > 0 ? html`<small>${t('{} refunded', money(refunded))}</small>` : nothing}</span>
</li>`
}

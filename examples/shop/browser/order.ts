import { html, nothing, render, type TemplateResult } from 'lit-html'
import { isProblem, type OrderDetail, ProblemError, type Schemas } from '../store.ts'
import type { Text } from '../view.ts'
import { countryName } from './countries.ts'
import { ask, attempt } from './dialog.ts'
import { explain } from './problems.ts'
import { money, reloadOnSignIn, shop, showSession, t, view } from './session.ts'
import { signIn } from './sign-in.ts'

type LinkedOrder = Schemas['LinkedOrder']
type Shown = OrderDetail | LinkedOrder

const POLL_MS = 5_000
export const ORDER_LINK = 'order-link'
const TOKEN = /^#([\w.-]+)$/
export const STATUSES: Readonly<Record<Shown['status'], Text>> = {
  pending: 'Received',
  confirmed: 'Confirmed',
  shipped: 'On its way',
  delivered: 'Delivered',
  cancelled: 'Cancelled',
  returned: 'Returned',
}

const dateText = (time: string) => new Date(time).toLocaleDateString(view.lang, { dateStyle: 'long' })

/** The page of one order: a customer's order by `?id=`, or the order of a mail's link by `#TOKEN`. */
export async function showOrder(root: HTMLElement): Promise<void> {
  const parameters = new URLSearchParams(location.search)
  const id = parameters.get('id')
  // Opening another mail's link in the same tab changes only the fragment.
  addEventListener('hashchange', () => TOKEN.test(location.hash) && location.reload())
  const isPlaced = parameters.get('placed') === 'yes'
  const token = id === null ? takeToken() : null
  const say = (text: string, action: unknown = nothing) => render(html`<p>${text}</p><p class="error" role="alert"></p>${action}`, root)
  if (id === null && token === null) return void say(t('Open this page with the link in a mail about your order, or from your orders.'))
  let poll: ReturnType<typeof setInterval> | undefined
  /** Removes the order from the page when its customer signs out, in this tab or another one. */
  const endOfSession = async () => {
    clearInterval(poll)
    entitle(t('Your order'))
    say(t('Sign in to see your order.'))
    await showSession()
    reloadOnSignIn()
  }
  if (id !== null && !(await signIn(t('Sign in to see your order.')))) return endOfSession()

  const read = async (): Promise<Shown> => {
    if (id !== null) return shop.order(id)
    return readLinked('/orders/by-link', { token: token ?? '' })
  }
  const load = async () => {
    try {
      show(await read())
    } catch (error) {
      const again = html`<p><button type="button" @click=${load}>${t('Try again')}</button></p>`
      if (isEndOfSession(error)) await endOfSession()
      else if (isProblem(error, 'invalid_order_link'))
        say(t('This link is not valid any more. The newest mail about the order has a valid one.'))
      else if (isProblem(error, 'not_found'))
        // A guest who has closed the tab meanwhile sees the order only by the link in its mail.
        say(isPlaced ? t('Your order is placed. The mail about it has a link to it.') : t('There is no such order.'))
      else say(explain(error), again)
    }
  }
  const cancel = async (order: Shown) => {
    const isCancelled = await ask(t('Cancel the order'), {
      text: [t('Do you want to cancel the whole order? This cannot be undone.')],
      others: {
        [t('Yes, cancel it')]: () =>
          'id' in order
            ? shop.cancelOrder(order.id, { version: order.version })
            : readLinked('/orders/by-link/cancel', { token: token ?? '' }),
      },
      explain: (error) =>
        isProblem(error, 'precondition_failed') || isProblem(error, 'illegal_transition')
          ? t('The order has changed meanwhile.')
          : explain(error),
    })
    await load()
    if (isCancelled) root.querySelector<HTMLElement>('#status')?.focus()
  }
  const reveal = (event: SubmitEvent) => {
    const postal_code = String(new FormData(event.currentTarget as HTMLFormElement).get('postal_code'))
    const explainCode = (error: unknown) =>
      isProblem(error, 'wrong_postal_code') ? t('The order has another postal code.') : explain(error)
    return attempt(event, async () => show(await readLinked('/orders/by-link', { token: token ?? '', postal_code })), explainCode)
  }
  const show = (order: Shown) => {
    entitle(t('Order {}', order.number))
    render(
      html`${isPlaced ? html`<p class="done">${t('Thank you: order {} is placed.', order.number)}</p>` : nothing}
<p><strong id="status" tabindex="-1">${t(STATUSES[order.status])}</strong> <small>${t('Placed on {}', dateText(order.created_at))}</small></p>
${steps(order)}${parcels(order)}${items(order)}${delivery(order, reveal)}
${canCancel(order) ? html`<p class="actions"><button type="button" class="danger" @click=${() => cancel(order)}>${t('Cancel the order')}</button></p>` : nothing}`,
      root,
    )
  }
  const refresh = async () => {
    if (document.hidden || document.querySelector('dialog') !== null) return
    await read().then(show, (error) => (isEndOfSession(error) ? endOfSession() : undefined))
  }
  if (id !== null) poll = setInterval(refresh, POLL_MS)
  await load()
}

const isEndOfSession = (error: unknown) => error instanceof ProblemError && error.status === 401

function entitle(title: string): void {
  document.title = title
  document.querySelector('h1')?.replaceChildren(title)
}

/** Removes the token from the address, so screenshots do not show it. A reload finds it in the session storage. */
function takeToken(): string | null {
  const [, given] = TOKEN.exec(location.hash) ?? []
  if (given === undefined) return sessionStorage.getItem(ORDER_LINK)
  sessionStorage.setItem(ORDER_LINK, given)
  history.replaceState(null, '', location.pathname + location.search)
  return given
}

async function readLinked(
  path: '/orders/by-link' | '/orders/by-link/cancel',
  body: { token: string; postal_code?: string },
): Promise<LinkedOrder> {
  const { data } = await shop.api.POST(path, { body })
  return data as LinkedOrder
}

const canCancel = (order: Shown) => ('can_cancel' in order ? order.can_cancel : order.allowed_transitions.includes('cancelled'))

function steps(order: Shown): TemplateResult | typeof nothing {
  const changes = 'history' in order ? order.history : order.status_history.filter(({ change }) => change === undefined)
  if (changes.length < 2) return nothing
  const step = ({ status, at }: { status: Shown['status']; at: string }) =>
    html`<li>${t(STATUSES[status])} <time datetime=${at}>${dateText(at)}</time></li>`
  return html`<ol class="steps" aria-label=${t('Progress')}>${changes.map(step)}</ol>`
}

function parcels({ parcels: all, items: lines }: Shown): TemplateResult | typeof nothing {
  if (all.length === 0) return nothing
  const names = new Map(lines.map(({ product_id, name }) => [product_id, name]))
  return html`<h2>${t('Parcels')}</h2>
<ul class="rows" aria-label=${t('Parcels')}>${all.map(
    ({ shipped_at, tracking, lines: sent }, index) => html`<li><span class="grow">
<strong>${t('Parcel {}', index + 1)}</strong> <small>${t('Shipped on {}', dateText(shipped_at))}</small>
${sent.map(({ product_id, quantity, line = -1 }) => html`<small>${quantity} × ${names.get(product_id) ?? ''}</small>${given(lines[line])}`)}</span>
${tracking === undefined ? nothing : track(tracking)}</li>`,
  )}</ul>`
}

/** Links only to http and https, and never to a URL with a user name, which can look like the carrier's host. */
function track({ carrier, number, url = '' }: Schemas['Tracking']): TemplateResult {
  const label = `${carrier} ${number}`
  const target = URL.parse(url)
  const isSafe = target !== null && /^https?:$/.test(target.protocol) && target.username + target.password === ''
  return isSafe
    ? html`<a href=${target.href} rel="noopener noreferrer" aria-label=${t('Track {}', label)}>${label}</a>`
    : html`<span>${label}</span>`
}

function items({ items: lines, adjustments, total, refunded }: Shown): TemplateResult {
  const paid = [...lines.map((line) => line.total.amount), ...adjustments.map(({ amount }) => amount.amount)]
  const changed = total.amount - paid.reduce((sum, amount) => sum + amount, 0)
  const line = (label: unknown, text: string) => html`<tr><th scope="row">${label}</th><td>${text}</td></tr>`
  return html`<h2>${t('Items')}</h2><table>
<tbody>${lines.map((one) => line(html`${one.quantity} × ${one.name}${given(one)}${units(one)}`, money(one.total)))}
${changed === 0 ? nothing : line(t('Changes'), money({ ...total, amount: changed }))}
${adjustments.map(({ label, amount }) => line(label, money(amount)))}</tbody>
<tfoot>${line(t('Total'), money(total))}${refunded === null || refunded.amount === 0 ? nothing : line(t('Refunded'), money(refunded))}</tfoot>
</table>`
}

/** The attributes with which a line was ordered, such as an engraving. */
function given({ attributes = {} }: Partial<Schemas['OrderItem']> = {}): TemplateResult[] {
  return Object.entries(attributes).map(([name, value]) => html`<small>${name}: ${value}</small>`)
}

function units({ quantity, shipped = 0, cancelled = 0, returned = 0 }: Schemas['OrderItem']): TemplateResult | typeof nothing {
  const counts: [Text, number][] = [
    ['{} shipped', shipped === quantity ? 0 : shipped],
    ['{} cancelled', cancelled],
    ['{} returned', returned],
  ]
  const texts = counts.filter(([, count]) => count > 0).map(([text, count]) => t(text, count))
  return texts.length === 0 ? nothing : html`<small>${texts.join(', ')}</small>`
}

function delivery(order: Shown, reveal: (event: SubmitEvent) => unknown): TemplateResult | typeof nothing {
  const address = order.shipping_address
  if (address !== null) {
    const { name, company, line1, line2, postal_code, city, region, country } = address
    const lines = [company, name, line1, line2, [postal_code, city, region].filter(Boolean).join(' '), countryName(country)]
    return html`<h2>${t('Delivery address')}</h2><address>${lines.filter(Boolean).join('\n')}</address>`
  }
  if (!('asks_postal_code' in order) || !order.asks_postal_code) return nothing
  return html`<h2>${t('Delivery address')}</h2>
<p>${t('The address is shown for its postal code, because a mail may be forwarded.')}</p>
<form class="row" @submit=${reveal}><label>${t('Postal code')} <input name="postal_code" required maxlength="20" autocomplete="postal-code"></label>
<button>${t('Show the address')}</button><p class="error" role="alert"></p></form>`
}

import { formatMoney } from '../../../client/src/currency.ts'
import type { components } from '../../../client/src/schema.ts'
import { TEXTS } from './texts.ts'

type Order = components['schemas']['LinkedOrder']
type Address = NonNullable<Order['shipping_address']>
type Language = Order['language']
type Child = Node | string | null

/** One opening of a link. Opening the same token later makes another object. */
interface Link {
  token: string
}

const KEY = 'order-link'
const main = document.querySelector('main') as HTMLElement
let current = takeLink()
let language = browserLanguage()

/** A refusal by the store, or the reason why no answer came. */
class Failure extends Error {
  readonly code: string

  constructor(code: string) {
    super(code)
    this.code = code
  }
}

/** Removes the token from the address bar, so screenshots do not show it. A reload finds it in the session storage. */
function takeLink(): Link | null {
  const given = location.hash.slice(1)
  if (given !== '') history.replaceState(null, '', location.pathname)
  let token: string | null = given
  try {
    if (given === '') token = sessionStorage.getItem(KEY)
    else sessionStorage.setItem(KEY, given)
  } catch (error) {
    // The browser may forbid storage. Then a reload needs the link again.
    if (!(error instanceof DOMException)) throw error
  }
  return token ? { token } : null
}

function browserLanguage(): Language {
  const known = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => Object.hasOwn(TEXTS, tag))
  return (known ?? 'en') as Language
}

/** Creates an element. Text becomes text nodes, so the store's data is never read as HTML. */
function create<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Readonly<Record<string, unknown>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), properties)
  element.append(...children.filter((child) => child !== null))
  return element
}

const texts = () => TEXTS[language]
const fill = (text: string, value: string | number) => text.replace('{}', () => String(value))
/** The browser's regional form of the language, such as `de-AT`. */
const locale = () => navigator.languages.find((tag) => tag.split('-')[0] === language) ?? language
const dateText = (time: string) => new Date(time).toLocaleDateString(locale(), { dateStyle: 'long' })
const moneyText = (money: Order['total']) => formatMoney(money, locale())

/**
 * Asks for the link's order. Never settles if the page has changed to another link, because its answer is useless then.
 */
async function ask(link: Link, path: string, body: object): Promise<Order> {
  const asked = request(path, { token: link.token, ...body })
  await Promise.allSettled([asked])
  return link === current ? asked : new Promise(() => undefined)
}

async function request(path: string, body: object): Promise<Order> {
  let answer: Response
  try {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    answer = await fetch(new URL(path, document.baseURI), { ...init, cache: 'no-store' })
  } catch (error) {
    if (error instanceof TypeError) throw new Failure('other')
    throw error
  }
  if (answer.ok) return answer.json()
  const isProblem = answer.headers.get('content-type')?.startsWith('application/problem+json') === true
  throw new Failure(isProblem ? (await answer.json()).code : 'other')
}

function failureText(error: unknown): string {
  const { failures } = texts()
  if (!(error instanceof Failure)) reportError(error)
  else if (Object.hasOwn(failures, error.code)) return failures[error.code as keyof typeof failures]
  return failures.other
}

async function load(link: Link | null): Promise<void> {
  current = link
  document.documentElement.lang = language
  if (link === null) return showMessage(texts().openFromMail)
  showMessage(texts().loading)
  try {
    show(link, await ask(link, 'orders/by-link', {}))
  } catch (error) {
    const isFinal = error instanceof Failure && error.code === 'invalid_order_link'
    const retry = create('button', { type: 'button', onclick: () => load({ ...link }) }, texts().retry)
    showMessage(failureText(error), isFinal ? null : retry)
  }
}

function showMessage(text: string, action: Child = null): void {
  main.replaceChildren(create('section', { role: 'status' }, create('h1', {}, text), action))
}

function show(link: Link, order: Order): void {
  language = order.language
  document.documentElement.lang = language
  const title = fill(texts().order, order.number)
  document.title = order.shop === null ? title : `${title} – ${order.shop}`
  document.querySelector('#shop')?.replaceChildren(order.shop ?? '')
  main.replaceChildren(
    create(
      'section',
      { className: 'status' },
      create('h1', {}, title),
      create('p', { className: `now ${order.status}` }, texts().status[order.status]),
      create('p', { className: 'muted' }, fill(texts().ordered, dateText(order.created_at))),
      steps(order),
    ),
    ...[order.parcels.length === 0 ? null : parcels(order), items(order), address(link, order), cancellation(link, order)].filter(
      (part) => part !== null,
    ),
  )
}

function section(title: string, ...children: Child[]): HTMLElement {
  return create('section', {}, create('h2', {}, title), ...children)
}

function steps({ history: passed }: Order): HTMLElement {
  const entries = passed.map(({ status, at }) => create('li', {}, texts().status[status], create('time', { dateTime: at }, dateText(at))))
  return create('ol', { className: 'steps' }, ...entries)
}

function parcels(order: Order): HTMLElement {
  const names = new Map(order.items.map(({ product_id, name }) => [product_id, name]))
  const sent = ({ product_id, quantity, line }: Order['parcels'][number]['lines'][number]) =>
    create('li', {}, `${quantity} × ${names.get(product_id) ?? ''}`, ...(line === undefined ? [] : given(order.items[line])))
  const entries = order.parcels.map(({ shipped_at, tracking, lines }, index) =>
    create(
      'li',
      {},
      create('h3', {}, fill(texts().parcel, index + 1)),
      create('p', { className: 'muted' }, fill(texts().shipped, dateText(shipped_at))),
      tracking === undefined ? null : trackingOf(tracking, index),
      create('ul', {}, ...lines.map(sent)),
    ),
  )
  return section(texts().parcels, create('ul', { className: 'parcels' }, ...entries))
}

function trackingOf({ carrier, number, url = '' }: NonNullable<Order['parcels'][number]['tracking']>, index: number): HTMLElement {
  const label = texts()
    .trackingNumber.replace('{carrier}', () => carrier)
    .replace('{number}', () => number)
  const link = create('a', { href: url, rel: 'noopener noreferrer', className: 'button' }, texts().track)
  // A user name in a URL can look like the carrier's host. Mails do not link such URLs either.
  if (!/^https?:\/\//i.test(url) || link.username + link.password !== '') return create('p', {}, label)
  link.setAttribute('aria-label', `${texts().track}: ${fill(texts().parcel, index + 1)}`)
  return create('div', {}, create('p', {}, label), link)
}

function items(order: Order): HTMLElement {
  const { total, adjustments, refunded } = order
  const changed = total.amount - [...order.items.map((item) => item.total), ...adjustments.map(({ amount }) => amount)].reduce(sum, 0)
  const rows = [
    ...order.items.map((item) =>
      row(create('span', {}, `${item.quantity} × ${item.name}`, ...given(item), units(item)), moneyText(item.total)),
    ),
    ...(changed === 0 ? [] : [row(texts().changes, moneyText({ ...total, amount: changed }))]),
    ...adjustments.map(({ label, amount }) => row(label, moneyText(amount))),
  ]
  // An API process of the previous release sends no `refunded`.
  const last = create(
    'tfoot',
    {},
    row(texts().total, moneyText(total)),
    refunded?.amount ? row(texts().refunded, moneyText(refunded)) : null,
  )
  return section(texts().items, create('table', {}, create('tbody', {}, ...rows), last))
}

const sum = (total: number, { amount }: { amount: number }) => total + amount

function row(label: Node | string, amount: string): HTMLElement {
  return create('tr', {}, create('th', { scope: 'row' }, label), create('td', {}, amount))
}

/** The attributes of a line, such as an engraving. */
function given({ attributes = {} }: Partial<Order['items'][number]> = {}): HTMLElement[] {
  return Object.entries(attributes).map(([name, value]) => create('small', {}, `${name}: ${value}`))
}

function units({ shipped, cancelled, returned, quantity }: Order['items'][number]): HTMLElement | null {
  const { shippedUnits, cancelledUnits, returnedUnits } = texts()
  const counts = [
    [shippedUnits, shipped === quantity ? 0 : shipped],
    [cancelledUnits, cancelled],
    [returnedUnits, returned],
  ] as const
  const text = counts.flatMap(([unit, count = 0]) => (count === 0 ? [] : [fill(unit, count)])).join(', ')
  return text === '' ? null : create('small', { className: 'muted' }, text)
}

function addressElement({ name, company, line1, line2, city, region, postal_code, country }: Address): HTMLElement {
  const place = [postal_code, city, region].filter(Boolean).join(' ')
  const countryName = new Intl.DisplayNames([locale()], { type: 'region' }).of(country)
  return create('address', {}, [company, name, line1, line2, place, countryName].filter(Boolean).join('\n'))
}

function address(link: Link, { shipping_address: shown, billing_address, vat_number, asks_postal_code }: Order): HTMLElement | null {
  if (shown !== null) {
    const part = section(
      texts().address,
      addressElement(shown),
      ...(billing_address === null ? [] : [create('h3', {}, texts().billingAddress), addressElement(billing_address)]),
      vat_number === null ? null : create('p', {}, fill(texts().vatNumber, vat_number)),
    )
    return Object.assign(part, { id: 'address', tabIndex: -1 })
  }
  if (!asks_postal_code) return null
  const failure = create('p', { role: 'alert', id: 'failure', className: 'failure' })
  const input = create('input', { name: 'postal_code', autocomplete: 'postal-code', required: true, maxLength: 20 })
  input.setAttribute('aria-describedby', 'failure')
  const button = create('button', { type: 'submit' }, texts().showAddress)
  const form = create('form', {}, create('label', {}, texts().postalCode, input), button, failure)
  const question = section(texts().address, create('p', { className: 'muted' }, texts().postalCodeWhy), form)
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    button.disabled = true
    try {
      show(link, await ask(link, 'orders/by-link', { postal_code: input.value }))
      main.querySelector<HTMLElement>('#address')?.focus()
    } catch (error) {
      failure.textContent = failureText(error)
      button.disabled = false
      input.focus()
    }
  })
  return question
}

function cancellation(link: Link, { can_cancel }: Order): HTMLElement | null {
  if (!can_cancel) return null
  const failure = create('p', { role: 'alert', className: 'failure' })
  const surely = create('button', { type: 'button', className: 'danger' }, texts().cancelSurely)
  const keep = create('button', { type: 'button' }, texts().keep)
  const question = create('div', { hidden: true }, create('p', {}, texts().cancelWarning), surely, keep)
  const begin = create('button', { type: 'button' }, texts().cancel)
  const choose = (isAsking: boolean) => {
    question.hidden = !isAsking
    begin.hidden = isAsking
    ;(isAsking ? keep : begin).focus()
  }
  begin.addEventListener('click', () => choose(true))
  keep.addEventListener('click', () => choose(false))
  surely.addEventListener('click', async () => {
    surely.disabled = true
    try {
      showCancelled(link, await ask(link, 'orders/by-link/cancel', {}))
    } catch (error) {
      // The order may be cancelled although the answer was lost.
      const order = await ask(link, 'orders/by-link', {}).catch(() => null)
      if (order?.status === 'cancelled') return showCancelled(link, order)
      failure.textContent = failureText(error)
      surely.disabled = false
    }
  })
  return create('section', { className: 'cancel' }, begin, question, failure)
}

function showCancelled(link: Link, order: Order): void {
  show(link, order)
  const now = main.querySelector<HTMLElement>('.now')
  now?.setAttribute('tabindex', '-1')
  now?.focus()
}

// Opening another mail's link in the same tab changes only the fragment.
addEventListener('hashchange', () => {
  if (location.hash !== '') load(takeLink())
})
load(current)

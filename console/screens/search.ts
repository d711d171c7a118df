import { addressOf } from '../kit/address.ts'
import { api, explain, read, type Schemas, type Scope, SignedOut } from '../kit/api.ts'
import { badge, type Content, html, money, nothing, ref, time } from '../kit/html.ts'
import { plural, t, word } from '../kit/language.ts'
import { mailName } from './mails.ts'
import { customerAddress, mailBadge, orderAddress, stateBadge } from './parts.ts'

/** Pause after the last key before the store is asked. */
const PAUSE_MS = 200
const MIN_CHARACTERS = 2
const MAX_CHARACTERS = 100
/** Largest number of results of each kind. */
const LISTED = 5

interface Item {
  href: string
  text: Content
  /** Less important text at the end of the line, which distinguishes the result. */
  detail: Content
}

interface Group {
  title: string
  items: readonly Item[]
}

export interface Place {
  title: string
  href: string
}

interface Search {
  (): Content
  /** Moves the focus to the search for Ctrl+K, and for `/` outside of fields. */
  onKey(event: KeyboardEvent): void
}

interface SearchOptions {
  may(scope: Scope): boolean
  places: readonly Place[]
  update(): void
  onSignedOut(error: SignedOut): void
}

/**
 * The search box of the header. It finds orders, customers, products, mails and screens for which the role has the
 * scope.
 */
export function createSearch({ may, places, update, onSignedOut }: SearchOptions): Search {
  let input: HTMLInputElement | undefined
  let groups: readonly Group[] = []
  let fault = ''
  let active = -1
  let isOpen = false
  let isAsking = false
  /** Whether Enter came before the answer, for example from a scanner. */
  let opensFirst = false
  let asked = new AbortController()

  const items = () => groups.flatMap((group) => group.items)
  const close = () => {
    asked.abort()
    isOpen = isAsking = opensFirst = false
    active = -1
    update()
  }
  const go = (item: Item | undefined) => {
    if (item === undefined) return
    if (input !== undefined) input.value = ''
    close()
    if (location.hash === item.href) input?.blur()
    else location.hash = item.href
  }
  const enter = () => {
    const found = items()
    if (active !== -1 || !isAsking) return go(found[Math.max(active, 0)])
    opensFirst = true
  }
  const ask = async (text: string, signal: AbortSignal) => {
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    if (signal.aborted) return
    try {
      const found = await Promise.all([everything(text, may, signal), mailsOf(text, may, signal)])
      if (signal.aborted) return
      groups = [...found.flat(), ...groups].filter((group) => group.items.length > 0)
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof SignedOut) return onSignedOut(error)
      fault = explain(error)
    }
    isAsking = false
    if (opensFirst) go(items()[0])
    opensFirst = false
    update()
  }
  const onInput = () => {
    const text = input?.value.trim() ?? ''
    asked.abort()
    asked = new AbortController()
    active = -1
    fault = ''
    opensFirst = false
    isOpen = text !== ''
    isAsking = text.length >= MIN_CHARACTERS && (may('orders:read') || may('stock:read') || may('mails:read'))
    groups = [{ title: t`Screens`, items: placesOf(text, places) }].filter((group) => group.items.length > 0)
    if (isAsking) void ask(text, asked.signal)
    update()
  }
  const move = (step: number) => {
    const count = items().length
    if (count > 0) active = (active + step + count + (active === -1 && step < 0 ? 1 : 0)) % count
    update()
  }
  const keys: Readonly<Record<string, () => void>> = { ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: enter, Escape: close }
  const onKeyDown = (event: KeyboardEvent) => {
    const work = keys[event.key]
    if (work === undefined || (!isOpen && event.key !== 'ArrowDown')) return
    event.preventDefault()
    if (isOpen) work()
    else onInput()
  }
  const onFocusOut = ({ relatedTarget, currentTarget }: FocusEvent) => {
    // The operator may come back to the window, so the input stays.
    if (!document.hasFocus() || (currentTarget as Element).contains(relatedTarget as Node | null)) return
    if (input !== undefined) input.value = ''
    close()
  }

  const option = (item: Item, index: number) =>
    html`<a role="option" id=${`found-${index}`} tabindex="-1" href=${item.href} aria-selected=${index === active} @click=${(
      event: MouseEvent,
    ) => {
      // The browser itself opens a new tab.
      if (event.ctrlKey || event.metaKey || event.shiftKey) return
      event.preventDefault()
      go(item)
    }}><span>${item.text}</span><small class="muted">${item.detail}</small></a>`
  const listed = () => {
    let index = 0
    return html`<div role="listbox" id="found" aria-label="Found">${groups.map(
      ({ title, items }) =>
        html`<div role="group" aria-label=${title}><p class="muted" aria-hidden="true">${title}</p>${items.map((item) => option(item, index++))}</div>`,
    )}</div>`
  }
  const state = (count: number) => {
    if (isAsking) return t`Searching …`
    return count === 0 ? t`Nothing found.` : plural(count, t`${count} result`, t`${count} results`)
  }
  const popup = () => {
    const count = items().length
    return html`<div class="found">${count > 0 ? listed() : nothing}
      <p class="muted" role="status">${fault === '' ? state(count) : nothing}</p><p class="error" role="alert">${fault}</p></div>`
  }
  const show = () => html`<div role="search" aria-label="Everything" class="finder" @focusout=${onFocusOut}>
    <input type="search" role="combobox" aria-label="Find anything" placeholder="Find (/)" maxlength=${MAX_CHARACTERS}
      autocomplete="off" aria-autocomplete="list" aria-keyshortcuts="/ Control+K" aria-expanded=${isOpen && items().length > 0}
      aria-controls=${isOpen && items().length > 0 ? 'found' : nothing} aria-activedescendant=${active === -1 ? nothing : `found-${active}`}
      @input=${onInput} @keydown=${onKeyDown} ${ref((element) => {
        input = element as HTMLInputElement | undefined
      })}>
    ${isOpen ? popup() : nothing}</div>`
  const onKey = (event: KeyboardEvent) => {
    const isShortcut = event.key === 'k' && (event.ctrlKey || event.metaKey)
    const isSlash = event.key === '/' && (event.target as Element).closest('input, select, textarea') === null
    if (!(isShortcut || isSlash) || document.querySelector('dialog[open]') !== null) return
    event.preventDefault()
    input?.focus()
    input?.select()
  }
  return Object.assign(show, { onKey })
}

function placesOf(text: string, places: readonly Place[]): Item[] {
  const wanted = text.toLowerCase()
  return places
    .filter(({ title }) => title.toLowerCase().includes(wanted))
    .map(({ title, href }) => ({ href, text: title, detail: t`screen` }))
}

async function everything(q: string, may: SearchOptions['may'], signal: AbortSignal): Promise<Group[]> {
  if (may('orders:read')) {
    const { orders, customers, products } = await read(api.GET('/admin/search', { params: { query: { q } }, signal }))
    const ofProducts = { title: t`Products`, items: productItems(q, may('stock:read') ? products : []) }
    const others = [
      { title: t`Orders`, items: [...orders.map(orderItem), ...all('orders', q, orders)] },
      { title: t`Customers`, items: [...customers.map(customerItem), ...all('customers', q, customers)] },
    ]
    // Orders also match a SKU, but Enter opens the product, so it comes first.
    const isSku = products.some(({ sku }) => sku?.toLowerCase() === q.toLowerCase())
    return isSku ? [ofProducts, ...others] : [...others, ofProducts]
  }
  if (!may('stock:read')) return []
  const { data } = await read(api.GET('/products', { params: { query: { q, limit: LISTED } }, signal }))
  return [{ title: t`Products`, items: productItems(q, data) }]
}

function productItems(q: string, products: readonly Schemas['Product'][]): Item[] {
  return [...products.map(productItem), ...all('products', q, products)]
}

/** A link to all results, if there may be more. */
function all(screen: string, q: string, found: readonly unknown[]): Item[] {
  return found.length < LISTED ? [] : [{ href: addressOf(screen, { q }), text: t`All ${word(screen)} with “${q}”`, detail: nothing }]
}

function orderItem({ id, number, status, shipping_address, total, created_at }: Schemas['AdminOrder']): Item {
  return {
    href: orderAddress(id),
    text: html`${number} ${shipping_address?.name ?? nothing} ${stateBadge(status)}`,
    detail: html`${money(total)}, ${time(created_at)}`,
  }
}

function customerItem({ id, name, email, blocked_at }: Schemas['Customer']): Item {
  const blocked = blocked_at === null ? nothing : badge(t`blocked`, 'bad')
  return { href: customerAddress(id), text: html`${name ?? email} ${blocked}`, detail: name === null ? nothing : email }
}

function productItem({ id, name, sku, price }: Schemas['Product']): Item {
  return { href: addressOf('products', { product: id }), text: name, detail: html`${sku ?? nothing} ${money(price)}` }
}

/** The mails about an order number, or to a complete address. */
async function mailsOf(q: string, may: SearchOptions['may'], signal: AbortSignal): Promise<Group[]> {
  const number = /^#?(\d{1,18})$/.exec(q)?.[1]
  const filter = number === undefined ? (/^\S+@\S+$/.test(q) ? { email: q } : null) : { order: number }
  if (filter === null || !may('mails:read')) return []
  const { data } = await read(api.GET('/admin/mails', { params: { query: { ...filter, limit: LISTED } }, signal }))
  const items = data.map(
    (mail): Item => ({
      href: addressOf('mails', { mail: mail.event_id }),
      text: html`${mailName(mail)} ${mailBadge(mail)}`,
      detail: html`${mail.to ?? t`deleted account`}, ${time(mail.queued_at)}`,
    }),
  )
  const rest: Item = { href: addressOf('mails', filter), text: t`All of these mails`, detail: nothing }
  return [{ title: t`Mails`, items: data.length < LISTED ? items : [...items, rest] }]
}

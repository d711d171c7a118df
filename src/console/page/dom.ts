import { formatMoney } from '#currency'
import { timeText } from './times.ts'

/** What can be in an element; null, undefined and false are nothing. */
export type Child = Node | string | number | null | undefined | false

type Properties<Tag extends keyof HTMLElementTagNameMap> = Partial<
  Omit<HTMLElementTagNameMap[Tag], 'style' | 'children' | 'dataset' | 'className' | 'attributes'>
> & { class?: string; attributes?: Readonly<Record<string, string>> }

/** Creates an element. Children that are text become text nodes: nothing that comes from the store is ever read as HTML. */
export function create<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  { class: className, attributes = {}, ...properties }: Properties<Tag> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  Object.assign(element, properties)
  if (className !== undefined) element.className = className
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...toNodes(children))
  return element
}

export function replaceChildren(element: Element, ...children: Child[]): void {
  element.replaceChildren(...toNodes(children))
}

function toNodes(children: readonly Child[]): (Node | string)[] {
  return children.flatMap((child) =>
    child === null || child === undefined || child === false ? [] : [child instanceof Node ? child : String(child)],
  )
}

/** The element of the page with this id. Throws when there is none. */
export function getElement(id: string): HTMLElement {
  const element = document.getElementById(id)
  if (element === null) throw new Error(`the page has no element ${id}`)
  return element
}

/** `report` gets the error of a click. */
export function button(text: string, onClick: () => unknown, report?: (error: unknown) => void): HTMLButtonElement {
  const element = create('button', { type: 'button' }, text)
  element.addEventListener('click', () => void (async () => onClick())().catch(report))
  return element
}

/** `current`: what it leads to is shown, as `aria-current` says it. */
export function link(href: string, text: Child, current: 'page' | 'true' | false = false): HTMLAnchorElement {
  return create('a', { href, attributes: current === false ? {} : { 'aria-current': current } }, text)
}

/** A row of buttons and links. */
export function actions(...children: Child[]): HTMLElement {
  return create('div', { class: 'actions' }, ...children)
}

export function card(title: string, ...children: Child[]): HTMLElement {
  return create('section', { class: 'card' }, create('h3', {}, title), ...children)
}

/** A time of the shop's clock as the operator's browser writes it, with the exact time for programs and as a tooltip. */
export function timeElement(time: string | null): HTMLElement {
  if (time === null) return create('span', {}, '–')
  return create('time', { dateTime: time, title: time }, timeText(new Date(time)))
}

/** An amount of minor units as the operator's browser writes it. */
export function amountText(money: { amount: number; currency: string }): string {
  return formatMoney(money, navigator.language)
}

/** A coloured word, such as the status of an order. `kind` decides the colour; the word says the same. */
export function badge(text: string, kind: 'good' | 'bad' | 'waiting' | 'neutral' = 'neutral'): HTMLElement {
  return create('span', { class: `badge ${kind}` }, text)
}

/** An image of a product, read when it comes into view. The name beside it says what it shows. */
export function picture(src: string): HTMLImageElement {
  return create('img', { class: 'picture', alt: '', loading: 'lazy', src })
}

/** Names and values; those without a value are left out. */
export function facts(...entries: readonly (readonly [string, Node | string | null | undefined])[]): HTMLElement {
  const given = entries.filter(([, value]) => value !== null && value !== undefined && value !== '')
  return create('dl', { class: 'facts' }, ...given.flatMap(([name, value]) => [create('dt', {}, name), create('dd', {}, value)]))
}

/** Creates less important text, such as what an empty list shows. */
export function note(...children: Child[]): HTMLElement {
  return create('p', { class: 'muted' }, ...children)
}

/** The name of a column; one of numbers is aligned to the right. */
export type Column = string | { number: string }

/** A table. `caption` is read by screen readers; a cell is text or an element. On narrow screens the table scrolls by itself. */
export function table(caption: string, columns: readonly Column[], rows: readonly Child[][]): HTMLElement {
  return create(
    'div',
    { class: 'scroll', tabIndex: 0, attributes: { role: 'region', 'aria-label': caption } },
    create(
      'table',
      {},
      create('caption', { class: 'hidden' }, caption),
      create('thead', {}, create('tr', {}, ...columns.map(headerCell))),
      create('tbody', {}, ...rows.map((row) => create('tr', {}, ...toCells(columns, row)))),
    ),
  )
}

function headerCell(column: Column): HTMLElement {
  return typeof column === 'string'
    ? create('th', { scope: 'col' }, column)
    : create('th', { scope: 'col', class: 'number' }, column.number)
}

/** The cells of a row. */
function toCells(columns: readonly Column[], row: readonly Child[]): HTMLElement[] {
  return row.map((cell, index) => create('td', typeof columns[index] === 'object' ? { class: 'number' } : {}, cell))
}

/** Offers a file to the operator. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content)
  create('a', { href: url, download: name }).click()
  // The download reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/**
 * A table, and a function that shows items as its rows. A row whose item is unchanged keeps its element, and so focus and scroll; in a row
 * that changed the same control gets the focus back.
 */
export function keyedTable<T>(
  caption: string,
  columns: readonly Column[],
  { keyOf, cellsOf }: { keyOf: (item: T) => string; cellsOf: (item: T) => Child[] },
): { element: HTMLElement; show(items: readonly T[]): void } {
  const element = table(caption, columns, [])
  const body = element.querySelector('tbody') ?? element
  const rows = new Map<string, { element: HTMLTableRowElement; shown: string }>()
  const show = (items: readonly T[]) => {
    const keys = new Set(items.map(keyOf))
    for (const [key, { element }] of rows) {
      if (keys.has(key)) continue
      element.remove()
      rows.delete(key)
    }
    let previous: Element | null = null
    for (const item of items) {
      const key = keyOf(item)
      const row = rows.get(key) ?? { element: create('tr'), shown: '' }
      rows.set(key, row)
      const text = JSON.stringify(item)
      if (row.shown !== text) keepFocus(row.element, () => replaceChildren(row.element, ...toCells(columns, cellsOf(item))))
      row.shown = text
      const next: Element | null = previous === null ? body.firstElementChild : previous.nextElementSibling
      // A row that is moved loses the focus, so only those that are not in their place are.
      if (next !== row.element) body.insertBefore(row.element, next)
      previous = row.element
    }
  }
  return { element, show }
}

/** Changes what is in an element; the control at the same place in it keeps the focus. */
export function keepFocus(element: HTMLElement, change: () => void): void {
  const controls = () => [...element.querySelectorAll<HTMLElement>('a, button, input')]
  const index = controls().indexOf(document.activeElement as HTMLElement)
  change()
  if (index !== -1) controls()[index]?.focus()
}

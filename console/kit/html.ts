import { nothing, type TemplateResult } from 'lit-html'
import { repeat } from 'lit-html/directives/repeat.js'
import { formatMoney } from '../../client/src/currency.ts'
import { explain } from './api.ts'
import { html, locale, t } from './language.ts'
import { exactTimeText, timeText } from './times.ts'

export { nothing, render, svg, type TemplateResult } from 'lit-html'
export { keyed } from 'lit-html/directives/keyed.js'
export { live } from 'lit-html/directives/live.js'
export { ref } from 'lit-html/directives/ref.js'
export { html } from './language.ts'
export { repeat }

/**
 * The possible content of a template: text, elements, templates, and lists of them. `nothing` shows nothing. Text never
 * becomes HTML.
 */
export type Content = TemplateResult | Node | string | number | null | undefined | typeof nothing | readonly Content[]

/** A box with a title. `wide` takes the whole width of the screen. */
export function card(title: string, content: Content, { wide = false, actions = nothing as Content } = {}): TemplateResult {
  return html`<section class=${wide ? 'card wide' : 'card'}><div class="title"><h3>${title}</h3>${actions}</div>${content}</section>`
}

/** A time such as "today 14:33" in the shop's time zone. A tooltip has the whole time. */
export function time(instant: string | null | undefined): Content {
  if (instant === null || instant === undefined) return '–'
  const date = new Date(instant)
  return html`<time datetime=${instant} title=${exactTimeText(date)}>${timeText(date)}</time>`
}

/** The text of an amount in minor units, in the operator's number format. */
export function money(amount: { amount: number; currency: string }): string {
  return formatMoney(amount, locale)
}

export type BadgeKind = 'good' | 'bad' | 'waiting' | 'next' | 'neutral'

/** A coloured word, which says the same as its colour. */
export function badge(text: string, kind: BadgeKind = 'neutral'): TemplateResult {
  return html`<span class="badge ${kind}">${text}</span>`
}

/** A product's image. The name beside it says what it shows. */
export function picture(src: string | null | undefined): Content {
  return src ? html`<img class="picture" alt="" loading="lazy" src=${src}>` : html`<span class="picture"></span>`
}

/** Less important text, for example of an empty list. */
export function note(...content: Content[]): TemplateResult {
  return html`<p class="muted">${content}</p>`
}

/** Text in place of the store's answer: the reason for a failure, or that the answer is loading. */
export function loading(fault: unknown = null): TemplateResult {
  return note(fault === null ? t`Loading …` : explain(fault))
}

/** A list of names and values. Entries without a value are left out. */
export function facts(...entries: readonly (readonly [string, Content])[]): TemplateResult {
  const given = entries.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== nothing)
  return html`<dl class="facts">${given.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`
}

export interface Column<T> {
  title: string
  cell(item: T): Content
  /** Whether the column has numbers, which are aligned to the right. */
  number?: boolean
}

/** A table. Screen readers read `caption`. A narrow screen scrolls the table alone. */
export function table<T>(caption: string, columns: readonly Column<T>[], items: readonly T[], keyOf?: (item: T) => string): TemplateResult {
  const row = (item: T) => html`<tr>${columns.map((column) => html`<td class=${alignment(column)}>${column.cell(item)}</td>`)}</tr>`
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class="hidden">${caption}</caption>
      <thead><tr>${columns.map((column) => html`<th scope="col" class=${alignment(column)}>${column.title}</th>`)}</tr></thead>
      <tbody>${keyOf === undefined ? items.map(row) : repeat(items, keyOf, row)}</tbody>
    </table>
  </div>`
}

export function alignment({ number }: { number?: boolean }): string {
  return number ? 'number' : ''
}

/** A menu of less frequent actions. Escape or a click outside closes it. */
export function menu(label: string, ...items: Content[]): TemplateResult {
  return html`<details class="menu" @toggle=${closeOthers} @keydown=${closeByEscape} @click=${closeByChoice}>
    <summary>${label}</summary><div>${items}</div>
  </details>`
}

function closeOthers({ target }: Event): void {
  const opened = target as HTMLDetailsElement
  if (!opened.open) return
  moveIntoWindow(opened)
  const close = ({ target: clicked }: MouseEvent) => {
    if (opened.contains(clicked as Node)) return
    opened.open = false
    document.removeEventListener('click', close)
  }
  document.addEventListener('click', close)
}

/** Moves a menu at the right edge to the left, so all of it is visible. */
function moveIntoWindow(menu: HTMLDetailsElement): void {
  const box = menu.querySelector<HTMLElement>(':scope > div')
  if (box === null) return
  box.style.translate = ''
  const over = box.getBoundingClientRect().right + 8 - document.documentElement.clientWidth
  if (over > 0) box.style.translate = `${-over}px`
}

function closeByEscape(event: KeyboardEvent): void {
  if (event.key !== 'Escape') return
  const menu = event.currentTarget as HTMLDetailsElement
  menu.open = false
  menu.querySelector('summary')?.focus()
}

/** A button or link in a menu closes it. A field or submit button does not, because the form may be refused. */
function closeByChoice({ target, currentTarget }: MouseEvent): void {
  if ((target as Element).closest('button[type=button], a') !== null) (currentTarget as HTMLDetailsElement).open = false
}

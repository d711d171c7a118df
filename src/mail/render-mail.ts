import mustache from 'mustache'
import { amountFormatter } from '../currency.ts'
import { LANGUAGES, type Language } from '../language.ts'
import { isMailed, isWebAddress, linesOf, type OrderEvent } from '../orders/events.ts'
import type { MailLanguages } from './mail-languages.ts'
import { oneLine } from './mailer.ts'
import type { ReadTemplate } from './templates.ts'

/** What a mail says about an order change: only what the templates need of the event, as JSON. */
export interface MailContent {
  event_id: string
  /** Names the template: the last part of the event's type, or that for a part of the order. */
  kind: string
  /** RFC 3339. */
  time: string
  user_id: string
  order: {
    number: string
    items: { name: string; quantity: number; total: number }[]
    /** Below the lines. Absent: none. */
    adjustments?: { label: string; amount: number }[]
    total: number
    currency: string
  }
  /** The pieces that were shipped, cancelled or returned; only of a mail about a part of the order. */
  lines?: { name: string; quantity: number }[]
  reason: string | null
  tracking: { carrier: string; number: string; url?: string } | null
  /** W3C trace context of the event. */
  traceparent?: string
}

export interface RenderedMail {
  subject: string
  text: string
  html: string
}

/**
 * Renders a mail for a customer, in the store's language unless one is given. `locale` writes the amounts otherwise than is usual in that
 * language. Throws when there is no template for its kind.
 */
export type RenderMail = (content: MailContent, customerName: string | null, language?: Language | null, locale?: string) => RenderedMail

/** The kinds of order mails, which are the names of their templates: the last part of their event's type, or what was done to a part. */
export const ORDER_MAIL_KINDS = [
  ...(['created', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'] as const),
  ...(['part_shipped', 'part_cancelled', 'part_returned'] as const),
] as const
export type OrderMailKind = (typeof ORDER_MAIL_KINDS)[number]

export const ORDER_MAIL_PARTIALS = { html: ['header', 'lines', 'order', 'footer'], txt: ['lines', 'order', 'footer'] } as const
const VALUES = [
  'customer',
  'number',
  'items',
  'lines',
  'name',
  'quantity',
  'total',
  'adjustments',
  'label',
  'amount',
  'reason',
  'language',
  'locale',
  'carrier',
  'tracking_number',
  'tracking_url',
  'without_reason',
  'more_items',
  'more_lines',
]
/** More lines than these are counted: Gmail cuts a mail above 102 kB, and a line takes about 330 bytes. */
const MAX_LISTED = 100

/** Whether customers get a mail about this event. */
export function hasMail(event: OrderEvent): boolean {
  return isMailed(event) && isOrderMailKind(mailKindOfEvent(event))
}

export function isOrderMailKind(kind: string): kind is OrderMailKind {
  return (ORDER_MAIL_KINDS as readonly string[]).includes(kind)
}

/** Which mail an event has. A parcel that is not the whole order, and lines that are not the last, are a part of it. */
export function mailKindOfEvent({ type, data: { order } }: OrderEvent): string {
  const { status, parcels = [], status_history } = order
  switch (status_history.at(-1)?.change?.type) {
    case 'shipped':
      return status === 'shipped' && parcels.length === 1 ? 'shipped' : 'part_shipped'
    case 'lines_cancelled':
      return status === 'cancelled' ? 'cancelled' : 'part_cancelled'
    case 'returned':
      return status === 'returned' ? 'returned' : 'part_returned'
    default:
      return mailKindOf(type)
  }
}

/** The kind of a mail by the type that is stored with it. */
export function mailKindOf(eventType: string): string {
  return eventType.slice(eventType.lastIndexOf('.') + 1)
}

export function toMailContent(event: OrderEvent): MailContent {
  const { order } = event.data
  const { reason = null, tracking = null } = order.status_history.at(-1) ?? {}
  const kind = mailKindOfEvent(event)
  return {
    event_id: event.id,
    kind,
    time: event.time,
    user_id: order.user_id,
    order: {
      number: order.number,
      items: itemsOf(event),
      ...(order.adjustments === undefined
        ? {}
        : { adjustments: order.adjustments.map(({ label, amount }) => ({ label, amount: amount.amount })) }),
      total: order.total.amount,
      currency: order.total.currency,
    },
    ...(kind.startsWith('part_') ? { lines: changedLines(event) } : {}),
    reason,
    tracking,
    ...(event.traceparent === undefined ? {} : { traceparent: event.traceparent }),
  }
}

/** The pieces that are not cancelled; of a cancelled order, which keeps its total, those that were until then. They add up to the total. */
function itemsOf(event: OrderEvent): MailContent['order']['items'] {
  const { items, status, status_history, original_total } = event.data.order
  const whole = items.map(({ name, quantity, total }) => ({ name, quantity, total: total.amount }))
  if (original_total === undefined) return whole
  const lines = linesOf(event, status === 'cancelled' ? status_history.slice(0, -1) : status_history)
  return items.flatMap(({ name, quantity, unit_price }, index) => {
    const kept = quantity - (lines[index]?.cancelled ?? 0)
    return kept === 0 ? [] : [{ name, quantity: kept, total: unit_price.amount * kept }]
  })
}

function changedLines(event: OrderEvent): { name: string; quantity: number }[] {
  const names = new Map(event.data.order.items.map(({ product_id, name }) => [product_id, name]))
  return piecesOf(event).map(([productId, quantity]) => ({ name: names.get(productId) ?? '', quantity }))
}

function piecesOf({ data: { order } }: OrderEvent): [productId: string, quantity: number][] {
  const change = order.status_history.at(-1)?.change
  return change !== undefined && 'lines' in change ? change.lines.map(({ product_id, quantity }) => [product_id, quantity]) : []
}

/** Reads the templates of every language, once. Each mail is a pair of files. */
export function createMailRenderer(readTemplate: ReadTemplate, { defaultLanguage, localeOf }: MailLanguages): RenderMail {
  const templates = byLanguage((language) => ({
    html: readTemplates(readTemplate, 'html', language),
    text: readTemplates(readTemplate, 'txt', language),
  }))
  const writer = new mustache.Writer()
  // Making one takes a fifth of the time of a mail. There are as many as languages and currencies.
  const formats = new Map<string, FormatAmount>()
  const formatOf = (currency: string, language: Language): FormatAmount => {
    const key = `${language} ${currency}`
    const format = formats.get(key) ?? amountFormatter(currency, localeOf(language))
    formats.set(key, format)
    return format
  }

  return (content, customerName, chosen, chosenLocale) => {
    const language = chosen ?? defaultLanguage
    const { currency } = content.order
    const { html, text } = templates[language]
    const [htmlTemplate, textTemplate] = [html.mails.get(content.kind), text.mails.get(content.kind)]
    if (htmlTemplate === undefined || textTemplate === undefined) throw new Error(`there is no mail for ${content.kind}`)
    const format = chosenLocale === undefined ? formatOf(currency, language) : amountFormatter(currency, chosenLocale)
    const view = { ...toView(content, customerName, format), locale: chosenLocale ?? localeOf(language), language }
    return renderPair(writer, [textTemplate, text.partials], [htmlTemplate, html.partials], view)
  }
}

/** What is read once for each language. */
export function byLanguage<T>(read: (language: Language) => T): Readonly<Record<Language, T>> {
  return Object.fromEntries(LANGUAGES.map((language) => [language, read(language)])) as Record<Language, T>
}

/** A template and its partials by name. */
type Template = readonly [text: string, partials: Readonly<Record<string, string>>]

/** A mail of two templates. The first line of its text is the subject, which the HTML may use, too. */
export function renderPair(writer: mustache.Writer, text: Template, html: Template, view: object): RenderedMail {
  const plain = writer.render(text[0], view, text[1], { escape: String })
  const endOfSubject = plain.indexOf('\n')
  const subject = plain.slice(0, endOfSubject)
  return {
    subject,
    text: `${plain.slice(endOfSubject).trim()}\n`,
    html: writer.render(html[0], { ...view, subject }, html[1], { escape: mustache.escape }),
  }
}

type FormatAmount = (amount: number) => string

function toView(content: MailContent, customerName: string | null, format: FormatAmount) {
  const { carrier = '', number = '', url = '' } = content.tracking ?? {}
  return {
    customer: customerName === null ? '' : oneLine(customerName),
    number: oneLine(content.order.number),
    items: content.order.items.slice(0, MAX_LISTED).map((item) => ({
      name: oneLine(item.name),
      quantity: item.quantity,
      total: format(item.total),
    })),
    lines: (content.lines ?? []).slice(0, MAX_LISTED).map(({ name, quantity }) => ({ name: oneLine(name), quantity })),
    adjustments: (content.order.adjustments ?? []).map(({ label, amount }) => ({ label: oneLine(label), amount: format(amount) })),
    more_items: countMore(content.order.items),
    more_lines: countMore(content.lines ?? []),
    total: format(content.order.total),
    reason: content.reason === null ? '' : oneLine(content.reason),
    carrier: oneLine(carrier),
    tracking_number: oneLine(number),
    // Around a partial that has the reason, too.
    without_reason: { reason: '' },
    // The row may contain any text: a link in a mail must not run a script or hide its address.
    tracking_url: isWebAddress(url) ? new URL(url).href : '',
  }
}

function countMore(list: readonly unknown[]): string {
  return list.length > MAX_LISTED ? String(list.length - MAX_LISTED) : ''
}

function readTemplates(readTemplate: ReadTemplate, format: 'html' | 'txt', language: Language) {
  const partials = ORDER_MAIL_PARTIALS[format]
  const values = format === 'html' ? [...VALUES, 'subject'] : VALUES
  const read = (name: string): [string, string] => [name, readTemplate(`${name}.${format}`, { values, partials }, language)]
  return { mails: new Map<string, string>(ORDER_MAIL_KINDS.map(read)), partials: Object.fromEntries(partials.map(read)) }
}

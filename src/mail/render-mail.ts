import { amountFormatter } from '../../client/src/currency.ts'
import type { Language } from '../language.ts'
import { isMailed, isWebAddress, linesOf, type OrderEvent } from '../orders/events.ts'
import { MAIL_TEXTS } from './built-in-templates.ts'
import { isCopy } from './copy-id.ts'
import { ORDER_MAIL_KINDS, type OrderMailKind } from './mail-kinds.ts'
import type { MailLanguages } from './mail-languages.ts'
import { oneLine } from './mailer.ts'
import type { MailGroup, RenderedMail, TemplateReader } from './templates.ts'

/** The parts of an order event that the templates of its mail need, as JSON. */
export interface MailContent {
  event_id: string
  /** The template's name: the last part of the event's type, or a name for a part of the order. */
  kind: string
  /** RFC 3339. */
  time: string
  user_id: string
  order: {
    number: string
    items: { name: string; quantity: number; total: number; line?: number }[]
    /** Charges and discounts below the lines. Absent if there are none. */
    adjustments?: { label: string; amount: number }[]
    total: number
    /** The refunded amount. Absent if it is zero or unknown. */
    refunded?: number
    currency: string
  }
  /** The amended parts. */
  amended?: readonly string[]
  /** In a mail about a part of the order: its shipped, cancelled or returned units. */
  lines?: { name: string; quantity: number; line?: number }[]
  reason: string | null
  tracking: { carrier: string; number: string; url?: string } | null
  /**
   * The attributes of the order's lines, which `line` above names. Read at sending and never stored, so nothing is left
   * to erase. Absent or null if the customer may not see them in mails.
   */
  item_attributes?: unknown
  /** Opens the order's page without a session. Made at sending and never stored. */
  order_token?: string
  /** The W3C trace context of the event. */
  traceparent?: string
}

/**
 * Renders a customer's mail. Without a language it uses the store's. `locale` replaces the usual amount format of the
 * language. Throws if the mail's kind has no template.
 */
export type RenderMail = (content: MailContent, customerName: string | null, language?: Language | null, locale?: string) => RenderedMail

export const ORDER_MAIL_GROUP: MailGroup = {
  folder: '',
  kinds: ORDER_MAIL_KINDS,
  values: [
    ...['customer', 'number', 'items', 'name', 'quantity', 'unit_price', 'total', 'more_items', 'adjustments', 'label', 'amount'],
    ...['attributes', 'value', 'refunded'],
    ...['lines', 'more_lines', 'reason', 'without_reason', 'carrier', 'tracking_number', 'tracking_url', 'language', 'locale'],
    ...['new_address', 'new_billing', 'new_email', 'order_url'],
  ],
}
/**
 * The most lines that a mail lists. Further lines are only counted. Gmail cuts a mail above 102 kB, and a line takes
 * about 330 bytes.
 */
const MAX_LISTED = 100

/** Whether customers get a mail for this event. */
export function hasMail(event: OrderEvent): boolean {
  return isMailed(event) && isOrderMailKind(mailKindOfEvent(event))
}

export function isOrderMailKind(kind: string): kind is OrderMailKind {
  return (ORDER_MAIL_KINDS as readonly string[]).includes(kind)
}

/**
 * The kind of an event's mail. A parcel without the whole order, and lines before the last ones, count as a part of the
 * order.
 */
function mailKindOfEvent({ type, data: { order } }: OrderEvent): string {
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

export function mailKindOf(eventType: string): string {
  return eventType.slice(eventType.lastIndexOf('.') + 1)
}

export function toMailContent(event: OrderEvent): MailContent {
  const { order } = event.data
  const { reason = null, tracking = null, change } = order.status_history.at(-1) ?? {}
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
      ...(order.refunded ? { refunded: order.refunded.amount } : {}),
      currency: order.total.currency,
    },
    ...(kind.startsWith('part_') ? { lines: changedLines(event) } : {}),
    ...(change?.type === 'amended' ? { amended: change.amended } : {}),
    reason,
    tracking,
    ...(event.traceparent === undefined ? {} : { traceparent: event.traceparent }),
  }
}

const NOTICE = '.former'

/** The mails for an event. If the mail address was changed, the former address also gets a notice. */
export function mailsOf(event: OrderEvent): MailContent[] {
  const content = toMailContent(event)
  if (!content.amended?.includes('email')) return [content]
  return [content, { ...content, event_id: `${event.id}${NOTICE}`, kind: 'readdressed' }]
}

/** The id of the event, from the key of one of its mails. Pure. */
export function eventIdOfMail(key: string): string {
  return key.endsWith(NOTICE) ? key.slice(0, -NOTICE.length) : key
}

/**
 * The lines with their units that are not cancelled, which add up to the total. A cancelled order keeps its total, so
 * its last cancelled units are listed.
 */
function itemsOf(event: OrderEvent): MailContent['order']['items'] {
  const { items, status, status_history, original_total } = event.data.order
  const whole = items.map(({ name, quantity, total, attributes }, line) => ({
    ...{ name, quantity, total: total.amount },
    ...(attributes && { line }),
  }))
  if (original_total === undefined) return whole
  const lines = linesOf(event, status === 'cancelled' ? status_history.slice(0, -1) : status_history)
  return whole.flatMap((item, index) => {
    const kept = item.quantity - (lines[index]?.cancelled ?? 0)
    return kept === 0 ? [] : [{ ...item, quantity: kept, total: (items[index]?.unit_price.amount ?? 0) * kept }]
  })
}

function changedLines({ data: { order } }: OrderEvent): NonNullable<MailContent['lines']> {
  const { items, status_history } = order
  const change = status_history.at(-1)?.change
  const names = new Map(items.map(({ product_id, name }) => [product_id, name]))
  return (change !== undefined && 'lines' in change ? change.lines : []).map(({ product_id, quantity, line }) => ({
    ...{ name: names.get(product_id) ?? '', quantity },
    ...(line !== undefined && items[line]?.attributes && { line }),
  }))
}

export interface OrderMailPages {
  /** The shop's page for an order, which takes a token from its fragment. */
  orderUrl: string
}

/** Reads the templates of all languages once, and returns the renderer. Each mail has a pair of files. */
export function createMailRenderer(
  { orderUrl }: OrderMailPages,
  templates: TemplateReader,
  { defaultLanguage, localeOf }: MailLanguages,
): RenderMail {
  const render = templates.read(ORDER_MAIL_GROUP)
  // One format for each language and currency is kept, because creating it takes a fifth of the time of a mail.
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
    const format = chosenLocale === undefined ? formatOf(currency, language) : amountFormatter(currency, chosenLocale)
    // Browsers send the fragment neither to a server nor as a referrer, so the token stays secret. Previews have no
    // token.
    const order_url = content.order_token === undefined ? orderUrl : `${orderUrl}#${content.order_token}`
    const view = { ...toView(content, customerName, format), order_url, locale: chosenLocale ?? localeOf(language), language }
    const mail = render(content.kind, language, view)
    return isCopy(content.event_id) ? { ...mail, subject: `${MAIL_TEXTS[language].copy}: ${mail.subject}` } : mail
  }
}

type FormatAmount = (amount: number) => string

function attributesOf({ item_attributes }: MailContent, { line }: { line?: number }): { name: string; value: string }[] {
  const given: unknown = line !== undefined && Array.isArray(item_attributes) ? item_attributes[line] : null
  // The row can contain any JSON.
  return Object.entries(typeof given === 'object' && given !== null ? given : {}).map(([name, value]) => ({
    name: oneLine(name),
    value: oneLine(String(value)),
  }))
}

function toView(content: MailContent, customerName: string | null, format: FormatAmount) {
  const { carrier = '', number = '', url = '' } = content.tracking ?? {}
  return {
    customer: customerName === null ? '' : oneLine(customerName),
    number: oneLine(content.order.number),
    items: content.order.items.slice(0, MAX_LISTED).map((item) => ({
      name: oneLine(item.name),
      attributes: attributesOf(content, item),
      quantity: item.quantity,
      unit_price: item.quantity > 1 ? format(item.total / item.quantity) : '',
      total: format(item.total),
    })),
    lines: (content.lines ?? []).slice(0, MAX_LISTED).map((line) => ({
      ...{ name: oneLine(line.name), quantity: line.quantity },
      attributes: attributesOf(content, line),
    })),
    adjustments: (content.order.adjustments ?? []).map(({ label, amount }) => ({ label: oneLine(label), amount: format(amount) })),
    more_items: countMore(content.order.items),
    more_lines: countMore(content.lines ?? []),
    total: format(content.order.total),
    refunded: content.order.refunded === undefined ? '' : format(content.order.refunded),
    new_address: content.amended?.includes('shipping_address') === true,
    new_billing: ['billing_address', 'vat_number'].some((name) => content.amended?.includes(name)),
    new_email: content.amended?.includes('email') === true,
    reason: content.reason === null ? '' : oneLine(content.reason),
    carrier: oneLine(carrier),
    tracking_number: oneLine(number),
    // Hides the reason in a partial that would show it a second time.
    without_reason: { reason: '' },
    // The row may contain any text. A link must not run a script, and must not hide its address.
    tracking_url: isWebAddress(url) ? new URL(url).href : '',
  }
}

function countMore(list: readonly unknown[]): string {
  return list.length > MAX_LISTED ? String(list.length - MAX_LISTED) : ''
}

import mustache from 'mustache'
import { amountFormatter } from '../money.ts'
import { isWebAddress, type OrderEvent } from '../orders/events.ts'
import { oneLine } from './mailer.ts'
import type { ReadTemplate } from './templates.ts'

/** What a mail says about an order change: only what the templates need of the event, as JSON. */
export interface MailContent {
  event_id: string
  /** The last part of the event's type, which names the template. */
  kind: string
  /** RFC 3339. */
  time: string
  user_id: string
  order: {
    number: string
    items: { name: string; quantity: number; total: number }[]
    total: number
    currency: string
  }
  reason: string | null
  tracking: { carrier: string; number: string; url?: string } | null
}

export interface RenderedMail {
  subject: string
  text: string
  html: string
}

/** Renders a mail for a customer. Throws when there is no template for its kind. */
export type RenderMail = (content: MailContent, customerName: string | null) => RenderedMail

const KINDS = ['created', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'] as const
const PARTIALS = { html: ['header', 'order', 'footer'], txt: ['order', 'footer'] } as const
const VALUES = [
  'customer',
  'number',
  'items',
  'name',
  'quantity',
  'total',
  'reason',
  'locale',
  'carrier',
  'tracking_number',
  'tracking_url',
]

/** Whether customers get a mail about this event. */
export function hasMail(event: OrderEvent): boolean {
  return (KINDS as readonly string[]).includes(kindOf(event))
}

function kindOf(event: OrderEvent): string {
  return event.type.slice(event.type.lastIndexOf('.') + 1)
}

export function toMailContent(event: OrderEvent): MailContent {
  const { order } = event.data
  const { reason = null, tracking = null } = order.status_history.at(-1) ?? {}
  return {
    event_id: event.id,
    kind: kindOf(event),
    time: event.time,
    user_id: order.user_id,
    order: {
      number: order.number,
      items: order.items.map((item) => ({ name: item.name, quantity: item.quantity, total: item.total.amount })),
      total: order.total.amount,
      currency: order.total.currency,
    },
    reason,
    tracking,
  }
}

/** Reads the templates, once. Each mail is a pair of files. Amounts are written as in `locale`, a BCP 47 tag. */
export function createMailRenderer(readTemplate: ReadTemplate, locale: string): RenderMail {
  const html = readTemplates(readTemplate, 'html')
  const text = readTemplates(readTemplate, 'txt')
  const writer = new mustache.Writer()

  return (content, customerName) => {
    const [htmlTemplate, textTemplate] = [html.mails.get(content.kind), text.mails.get(content.kind)]
    if (htmlTemplate === undefined || textTemplate === undefined) throw new Error(`there is no mail for ${content.kind}`)
    return renderPair(writer, [textTemplate, text.partials], [htmlTemplate, html.partials], toView(content, customerName, locale))
  }
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

function toView(content: MailContent, customerName: string | null, locale: string) {
  const format = amountFormatter(content.order.currency, locale)
  const { carrier = '', number = '', url = '' } = content.tracking ?? {}
  return {
    locale,
    customer: customerName === null ? '' : oneLine(customerName),
    number: oneLine(content.order.number),
    items: content.order.items.map((item) => ({
      name: oneLine(item.name),
      quantity: item.quantity,
      total: format(item.total),
    })),
    total: format(content.order.total),
    reason: content.reason === null ? '' : oneLine(content.reason),
    carrier: oneLine(carrier),
    tracking_number: oneLine(number),
    // The row may contain any text: a link in a mail must not run a script or hide its address.
    tracking_url: isWebAddress(url) ? new URL(url).href : '',
  }
}

function readTemplates(readTemplate: ReadTemplate, format: 'html' | 'txt') {
  const partials = PARTIALS[format]
  const values = format === 'html' ? [...VALUES, 'subject'] : VALUES
  const read = (name: string): [string, string] => [name, readTemplate(`${name}.${format}`, { values, partials })]
  return { mails: new Map(KINDS.map(read)), partials: Object.fromEntries(partials.map(read)) }
}

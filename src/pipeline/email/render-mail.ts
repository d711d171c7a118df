import { readFileSync } from 'node:fs'
import mustache from 'mustache'
import type { OrderEvent } from '../../orders/events.ts'
import { amountFormatter } from './format-amount.ts'
import { oneLine } from './mailer.ts'

/** What a mail says of an order change: as little of the event as its templates need, in a form a job can carry. */
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
}

export interface RenderedMail {
  subject: string
  text: string
  html: string
}

/** Renders a mail for the customer, whose name may be unknown. Throws when there is no template for its kind. */
export type RenderMail = (content: MailContent, customerName: string | null) => RenderedMail

const KINDS = ['created', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'] as const
const HTML_PARTIALS = ['header', 'order', 'footer'] as const
const TEXT_PARTIALS = ['order', 'footer'] as const

export function toMailContent(event: OrderEvent): MailContent {
  const { order } = event.data
  return {
    event_id: event.id,
    kind: event.type.slice(event.type.lastIndexOf('.') + 1),
    time: event.time,
    user_id: order.user_id,
    order: {
      number: order.number,
      items: order.items.map((item) => ({ name: item.name, quantity: item.quantity, total: item.total.amount })),
      total: order.total.amount,
      currency: order.total.currency,
    },
    reason: order.status_history.at(-1)?.reason ?? null,
  }
}

/** Reads the templates, once. Each mail is a pair of files; the first line of its text is the subject. */
export function createMailRenderer(): RenderMail {
  const html = readTemplates('html', HTML_PARTIALS)
  const text = readTemplates('txt', TEXT_PARTIALS)
  const writer = new mustache.Writer()
  const unescaped = (value: unknown) => String(value)

  return (content, customerName) => {
    const [htmlTemplate, textTemplate] = [html.mails.get(content.kind), text.mails.get(content.kind)]
    if (htmlTemplate === undefined || textTemplate === undefined) throw new Error(`there is no mail for ${content.kind}`)
    const view = toView(content, customerName)
    const plain = writer.render(textTemplate, view, text.partials, { escape: unescaped })
    const endOfSubject = plain.indexOf('\n')
    const subject = plain.slice(0, endOfSubject)
    return {
      subject,
      text: `${plain.slice(endOfSubject).trim()}\n`,
      html: writer.render(htmlTemplate, { ...view, subject }, html.partials, { escape: mustache.escape }),
    }
  }
}

function toView(content: MailContent, customerName: string | null) {
  const format = amountFormatter(content.order.currency)
  return {
    customer: customerName === null ? '' : oneLine(customerName),
    number: oneLine(content.order.number),
    items: content.order.items.map((item) => ({
      name: oneLine(item.name),
      quantity: item.quantity,
      total: format(item.total),
    })),
    total: format(content.order.total),
    reason: content.reason === null ? '' : oneLine(content.reason),
  }
}

function readTemplates(format: 'html' | 'txt', partials: readonly string[]) {
  const read = (name: string): [string, string] => [
    name,
    readFileSync(new URL(`templates/${name}.${format}.mustache`, import.meta.url), 'utf8'),
  ]
  return { mails: new Map(KINDS.map(read)), partials: Object.fromEntries(partials.map(read)) }
}

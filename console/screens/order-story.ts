import { versionOf } from '../../src/orders/order-status.ts'
import { addressOf } from '../kit/address.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { follow } from '../kit/follow.ts'
import { createForm, field } from '../kit/form.ts'
import { type Content, card, html, money, note, nothing, repeat, table, time } from '../kit/html.ts'
import { capitalized, plural, t, word } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { durationText } from '../kit/times.ts'
import { mailContent } from './mail-content.ts'
import { canSendAgain, mailName, sendMailAgain } from './mails.ts'
import { type OrderDetail, trackingText, unitsText } from './order-parts.ts'
import { mailBadge, stateBadge } from './parts.ts'

type Mail = Schemas['MailSummary']
type Note = Schemas['OrderNote']
type Change = Schemas['OrderChange']

const MAIL_SECONDS = 5
/** Largest number of shown entries. The API has more. */
const SHOWN = 100

interface Event {
  key: string
  at: string
  content: Content
}

/** The history of an order: its changes, its mails and the operators' notes, newest first. */
export function orderStory(orderId: string, context: ScreenContext): (order: OrderDetail) => Content {
  const { may, names, act, parameters } = context
  const notes = orderNotes(orderId, context)
  const shownMail = openMail(`${orderId}.${parameters.get('event') ?? ''}`, context)
  const query = { order: orderId, limit: SHOWN }
  const askMails = (init: object) => api.GET('/admin/mails', { ...init, params: { query } })
  const mails = follow(context, askMails, { seconds: MAIL_SECONDS, endsAt: [400, 422] })
  if (may('mails:read')) mails.refresh()

  const changeEvent = (order: OrderDetail, index: number): Event[] => {
    const entry = order.status_history[index]
    if (entry === undefined) return []
    const { at, actor, status, reason, reference, tracking, change } = entry
    const text = change === undefined ? (index === 0 ? t`Order placed` : t`Order ${word(status)}`) : changeText(order, change)
    const isMove = status !== order.status_history[index - 1]?.status
    const details = [reason, tracking === undefined ? null : trackingText(tracking), reference && t`Reference ${reference}`]
    const content = html`${isMove ? stateBadge(status) : nothing} ${text} by ${names.actor(actor, order.user_id)}
      ${details.filter(Boolean).map((detail) => html`<small>${detail}</small>`)}`
    return [{ key: `change ${versionOf(entry, index)}`, at, content }]
  }
  const mailEvent = (mail: Mail): Event => {
    const isShown = shownMail.is(mail)
    const name = mailName(mail)
    const attempts = mail.attempts > 1 ? t`after ${mail.attempts} attempts` : ''
    const again = mail.status === 'failed' ? t`Retry` : t`Send again`
    const show = isShown ? t`Hide` : t`Show`
    const content = html`Mail “${name}” ${mailBadge(mail)} ${attempts} to ${mail.to ?? t`a deleted account`}
      <button type="button" aria-label="${show} the mail “${name}”" @click=${() => shownMail.toggle(mail)}>${show}</button>
      ${
        canSendAgain(mail, may)
          ? html`<button type="button" aria-label="${again} the mail “${name}”"
              @click=${act(() => sendMailAgain(mail, context).then(mails.refresh))}>${again}</button>`
          : nothing
      }
      ${[mail.bounce_reason, mail.last_error].filter(Boolean).map((reason) => html`<small>${reason}</small>`)}
      ${isShown ? shownMail.content() : nothing}`
    return { key: `mail ${mail.event_id}`, at: mail.sent_at ?? mail.failed_at ?? mail.queued_at, content }
  }
  const noteEvent = ({ id, created_at, author, text }: Note): Event => {
    const content = html`Note by ${names.actor(author)}<p class="note">${text}</p>`
    return { key: `note ${id}`, at: created_at, content }
  }

  return (order) => {
    const changes = order.status_history.flatMap((_, index) => changeEvent(order, index))
    const events = [...changes, ...(mails()?.data ?? []).map(mailEvent), ...notes.list().map(noteEvent)]
    // Entries with equal times keep their sequence in the list.
    const newest = events.toReversed().sort((a, b) => Date.parse(b.at) - Date.parse(a.at))
    return card(
      t`What happened`,
      html`${notes.form()}
        <ol class="story">${repeat(
          newest,
          ({ key }) => key,
          ({ at, content }) => html`<li>${time(at)}<div>${content}</div></li>`,
        )}</ol>
        ${notes.more()}
        <details><summary>Details</summary>${steps(order)}</details>`,
    )
  }
}

/** The mail that is shown among the events. It keeps itself up to date, and its id is in the address. */
function openMail(firstId: string, context: ScreenContext) {
  const followMail = (event_id: string) => {
    const ask = (init: object) => api.GET('/admin/mails/{event_id}', { ...init, params: { path: { event_id } } })
    return follow<Schemas['Mail']>(context, ask, { seconds: MAIL_SECONDS, endsAt: [404] })
  }
  let shownId = firstId
  let mail = followMail(firstId)
  let isAsked = false
  const address = (event: string | null) => {
    const [screen = '', query] = location.hash.slice(1).split('?')
    const given = Object.fromEntries(new URLSearchParams(query))
    history.replaceState(null, '', addressOf(screen, { ...given, event }))
  }
  return {
    is: ({ event_id }: Mail) => event_id === shownId,
    toggle({ event_id, order_id }: Mail) {
      const isShown = event_id === shownId
      mail.stop()
      shownId = isShown ? '' : event_id
      mail = followMail(shownId)
      isAsked = false
      address(isShown ? null : event_id.slice(order_id.length + 1))
      context.update()
    },
    /** Loads the mail only when it is shown, because the id in the address may not be a mail of this order. */
    content() {
      if (!isAsked) mail.refresh()
      isAsked = true
      return mail.show(({ rendered }) => mailContent(rendered))
    },
  }
}

/** The operators' notes about an order, and a form for a new note. */
function orderNotes(orderId: string, context: ScreenContext) {
  const { may, report, tell, update } = context
  const params = { path: { id: orderId } }
  let page: Schemas['OrderNotePage'] | null = null
  const load = async () => {
    page = await read(api.GET('/admin/orders/{id}/notes', { params: { ...params, query: { limit: SHOWN } } }))
    update()
  }
  load().catch(report)
  const form = createForm(context, {
    submit: t`Add note`,
    edits: true,
    onSubmit: async (data, element) => {
      await api.POST('/admin/orders/{id}/notes', { params, body: { text: String(data.get('text')) } })
      element.reset()
      tell(t`The note is saved.`)
      await load()
    },
  })
  const hint = t`For operators only: the customer never sees it.`
  const text = html`<textarea name="text" maxlength="2000" rows="2" required></textarea>`
  return {
    // Oldest first, like the changes of the order.
    list: () => page?.data.toReversed() ?? [],
    form: () => (may('orders:move') ? form(field(t`New note`, text, hint)) : nothing),
    more: () => (page?.has_more ? note(t`Only the newest ${SHOWN} notes are shown.`) : nothing),
  }
}

/** What the pipeline did with each change, and when. */
function steps({ timeline }: OrderDetail): Content {
  type Entry = Schemas['TimelineEntry']
  return table<Entry>(
    t`Timeline`,
    [
      { title: t`Step`, cell: ({ version, status }) => html`${version} ${stateBadge(status)}` },
      { title: t`Made`, cell: ({ at }) => time(at) },
      { title: t`Published`, cell: ({ published_at, at }) => stepText(published_at, at) },
      { title: t`Mail`, cell: ({ mail }) => (mail === null ? '–' : html`${mailBadge(mail)} ${attemptsText(mail.attempts)}`) },
      { title: t`Mail sent`, cell: ({ mail }) => (mail === null ? '–' : stepText(mail.sent_at ?? mail.failed_at, mail.queued_at)) },
      { title: t`Lake`, cell: ({ lake_at, published_at }) => stepText(lake_at, published_at) },
    ],
    timeline,
    ({ version }) => String(version),
  )
}

function attemptsText(attempts: number): string {
  return plural(attempts, t`${attempts} attempt`, t`${attempts} attempts`)
}

/** A step of the pipeline: its time, and the time since the previous step. */
function stepText(at: string | null, since: string | null): Content {
  const took =
    at === null || since === null ? nothing : html` <small class="muted">+${durationText(Date.parse(at) - Date.parse(since))}</small>`
  return html`${time(at)}${took}`
}

/** The text of a change. A change of a later release has its type as text. */
function changeText(order: OrderDetail, change: Change): string {
  const { type, lines = [], removed = [], added = [], amount = 0 } = change
  const units = unitsText(order, lines)
  const sum = money({ amount, currency: order.total.currency })
  switch (type) {
    case 'shipped':
      return t`${units} shipped`
    case 'lines_cancelled':
      return amount === 0 ? t`${units} cancelled` : t`${units} cancelled: ${sum}`
    case 'returned':
      return change.restock ? t`${units} returned, to be sold again` : t`${units} returned, not back in stock`
    case 'adjusted':
      return `${change.label} (${word(change.kind ?? '')}): ${sum}`
    case 'adjustment_voided':
      return t`${labelOf(order, change.adjustment) ?? t`A charge`} is void: ${sum}`
    case 'payment':
      return `${paymentText(order, change)}: ${change.provider} ${change.reference}`
    case 'amended':
      return [
        t`Amended: ${(change.amended ?? []).map(word).join(', ')}`,
        ...(added.length === 0 ? [] : [t`${unitsText(order, added)} added`]),
        ...(removed.length === 0 ? [] : [t`${unitsText(order, removed)} removed`]),
        ...(amount === 0 ? [] : [t`total ${sum}`]),
      ].join('; ')
    default:
      return capitalized(word(type))
  }
}

function paymentText(order: OrderDetail, { state, refund }: Change): string {
  if (refund === undefined) return t`Payment ${word(state ?? '')}`
  const { currency } = order.total
  const units = unitsText(order, refund.lines ?? [])
  const sum = money({ amount: refund.amount, currency })
  return units === '' ? t`${sum} refunded` : t`${sum} refunded for ${units}`
}

function labelOf({ status_history: history }: OrderDetail, version: number | undefined): string | undefined {
  return history.find((entry, index) => versionOf(entry, index) === version)?.change?.label
}

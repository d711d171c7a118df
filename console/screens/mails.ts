import { addressOf } from '../kit/address.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { confirmAction } from '../kit/dialog.ts'
import { follow } from '../kit/follow.ts'
import { type Content, card, facts, html, nothing, time } from '../kit/html.ts'
import { plural, t } from '../kit/language.ts'
import { resourceList } from '../kit/resource-list.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { mailContent } from './mail-content.ts'
import { mailBadge, orderAddress } from './parts.ts'

type Mail = Schemas['Mail']
type Summary = Schemas['MailSummary']

const LIST_SECONDS = 5
const SECONDS = 5

const KINDS: Readonly<Record<Summary['kind'], string>> = {
  created: t`Order placed`,
  confirmed: t`Order confirmed`,
  shipped: t`Order shipped`,
  delivered: t`Order delivered`,
  cancelled: t`Order cancelled`,
  returned: t`Order returned`,
  amended: t`Order corrected`,
  readdressed: t`Address changed`,
  part_shipped: t`Part shipped`,
  part_cancelled: t`Part cancelled`,
  part_returned: t`Part returned`,
}

/** `#mails` lists mails, and `?mail=EVENT_ID` shows one. */
export const mails: Screen = {
  title: t`Mails`,
  scopes: ['mails:read'],
  open(context) {
    const eventId = context.parameters.get('mail')
    return eventId === null ? mailList(context) : mailView(eventId, context)
  },
}

function mailList(context: ScreenContext): () => Content {
  const { signal, may, tell, act } = context
  const askFailed = (init: object) => api.GET('/admin/mails', { ...init, params: { query: { status: 'failed', limit: 1 } } })
  const failed = follow(context, askFailed, { seconds: LIST_SECONDS })
  if (may('mails:send')) failed.refresh()

  const retryAll = async () => {
    const text = [t`All failed mails are queued again. The filters of the list do not limit this.`]
    if (!(await confirmAction({ title: t`Retry all failed mails?`, text, action: t`Retry all` }, signal))) return
    const { queued, has_more } = await read(api.POST('/admin/mails/retry'))
    const again = plural(queued, t`${queued} mail is queued again.`, t`${queued} mails are queued again.`)
    tell(has_more ? t`${again} More have failed: retry again.` : again)
    list.refresh()
    failed.refresh()
  }

  const list = resourceList<Summary>(
    {
      title: t`Mails`,
      screen: 'mails',
      seconds: LIST_SECONDS,
      ask: (query, init) => api.GET('/admin/mails', { ...init, params: { query } }),
      keyOf: ({ event_id }) => event_id,
      hrefOf: ({ event_id }) => addressOf('mails', { mail: event_id }),
      tabs: [
        { title: t`All`, filters: {} },
        { title: t`Waiting`, filters: { status: 'queued' } },
        { title: t`Sent`, filters: { status: 'sent' } },
        { title: t`Failed`, filters: { status: 'failed' } },
        { title: t`Not received`, filters: { undelivered: 'true' } },
      ],
      filters: [
        { name: 'email', label: t`Address` },
        { name: 'order', label: t`Order`, title: t`An order's number or id`, pattern: '\\s*([0-9]{1,18}|[0-9a-f\\-]{36})\\s*' },
        { name: 'from', label: t`From`, kind: 'time' },
        { name: 'to', label: t`Before`, kind: 'time' },
      ],
      columns: [
        { title: t`Mail`, cell: mailName },
        { title: t`State`, cell: mailBadge },
        { title: t`Order`, cell: orderLink },
        { title: t`To`, cell: ({ to }) => to ?? html`<span class="muted">deleted account</span>` },
        { title: t`Queued`, cell: ({ queued_at }) => time(queued_at) },
        { title: t`Sent`, cell: ({ sent_at, next_attempt_at }) => sentTime(sent_at, next_attempt_at) },
        { title: t`Attempts`, number: true, cell: ({ attempts }) => attempts },
        { title: t`Reason`, cell: ({ bounce_reason, last_error }) => bounce_reason ?? last_error },
      ],
      words: {
        count: (count) => plural(count, t`${count} mail`, t`${count} mails`),
        none: t`No mails yet: each order sends its customer one when it is placed, confirmed, shipped and so on.`,
        noMatch: t`No mail matches.`,
      },
      actions: () =>
        failed()?.data.length ? html`<button type="button" @click=${act(retryAll)}>Retry all failed mails</button>` : nothing,
    },
    context,
  )
  return list
}

export function mailName({ kind, copy_of }: Pick<Summary, 'kind' | 'copy_of'>): string {
  return copy_of === null ? KINDS[kind] : t`${KINDS[kind]} (copy)`
}

function sentTime(sentAt: string | null, nextAttemptAt: string | null): Content {
  return sentAt === null && nextAttemptAt !== null ? html`next attempt ${time(nextAttemptAt)}` : time(sentAt)
}

function orderLink({ order_id, order_number }: Pick<Mail, 'order_id' | 'order_number'>): Content {
  return html`<a href=${orderAddress(order_id)}>${order_number ?? order_id}</a>`
}

/** A mail with its state, kept up to date. */
function mailView(eventId: string, context: ScreenContext): () => Content {
  const { may, act, title } = context
  const params = { path: { event_id: eventId } }
  const onChange = (next: Mail) => title(headingOf(next))
  const ask = (init: object) => api.GET('/admin/mails/{event_id}', { ...init, params })
  const mail = follow(context, ask, { seconds: SECONDS, onChange, endsAt: [400, 404] })
  mail.refresh()

  const action = (shown: Mail) => {
    const click = act(() => sendMailAgain(shown, context).then(mail.refresh))
    if (!canSendAgain(shown, may)) return nothing
    if (shown.status === 'failed') return html`<button type="button" class="primary" @click=${click}>Retry this mail</button>`
    return html`<button type="button" @click=${click}>Send this mail again</button>`
  }

  return () => html`<a href="#mails">← All mails</a>
    ${mail.show(
      (shown) => html`<div class="title"><h2>${headingOf(shown)}</h2><div class="actions">${mailBadge(shown)}${action(shown)}</div></div>
        <div class="mail">${card(t`What became of it`, mailFacts(shown))}${card(t`The mail`, mailContent(shown.rendered))}</div>`,
    )}`
}

/** Whether a mail can be retried or sent as a copy. A notice to a former address is sent only once. */
export function canSendAgain({ status, kind, complained_at }: Summary, may: ScreenContext['may']): boolean {
  if (!may('mails:send') || status === 'queued') return false
  return status === 'failed' || (kind !== 'readdressed' && complained_at === null)
}

/** Queues a failed mail again, or a copy of a sent one, after the operator has confirmed it. */
export async function sendMailAgain(
  { event_id, status }: Summary,
  { signal, tell }: Pick<ScreenContext, 'signal' | 'tell'>,
): Promise<void> {
  const params = { path: { event_id } }
  if (status === 'failed') {
    const text = [t`The mail is queued again. The customer gets it when the mail server accepts it.`]
    if (!(await confirmAction({ title: t`Retry this mail?`, text, action: t`Retry` }, signal))) return
    await api.POST('/admin/mails/{event_id}/retry', { params })
    return tell(t`The mail is queued again.`)
  }
  const text = [t`The customer gets a copy, marked as one, at the present address.`]
  if (!(await confirmAction({ title: t`Send this mail again?`, text, action: t`Send again` }, signal))) return
  await api.POST('/admin/mails/{event_id}/send-again', { params })
  tell(t`A copy of the mail is queued.`)
}

function headingOf(mail: Mail): string {
  return mail.rendered?.subject ?? mailName(mail)
}

function mailFacts(mail: Mail): Content {
  const given = (instant: string | null) => (instant === null ? null : time(instant))
  return facts(
    [t`Mail`, mail.copy_of === null ? KINDS[mail.kind] : t`${KINDS[mail.kind]}, sent again`],
    [t`Order`, orderLink(mail)],
    [t`To`, mail.to ?? t`the account was deleted`],
    [t`Attempts`, mail.attempts],
    [t`Queued`, time(mail.queued_at)],
    [t`Next attempt`, given(mail.next_attempt_at)],
    [t`Sent`, given(mail.sent_at)],
    [t`Failed`, mail.status === 'failed' ? given(mail.failed_at) : null],
    [t`Reason`, mail.last_error],
    [t`Came back`, given(mail.bounced_at)],
    [t`Because`, mail.bounce_reason],
    [t`Called spam`, given(mail.complained_at)],
  )
}

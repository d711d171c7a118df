import { call, pathOf, poll, type Schemas } from './api.ts'
import { confirmAction } from './dialog.ts'
import { button, create, facts, link, note, replaceChildren, timeElement } from './dom.ts'
import { orderAddress } from './order-parts.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

const RETRY = {
  title: 'Retry this mail?',
  text: ['The mail is queued again. The customer gets it when the mail server accepts it.'],
  action: 'Retry',
}
const SEND_AGAIN = {
  title: 'Send this mail again?',
  text: ['The customer gets a copy, marked as one, at the present address.'],
  action: 'Send again',
}
/** Links of the mail would open in a new tab, which the frame may not: nothing happens. A mail is looked at here, not used. */
const INERT_LINKS = '<base target="_blank">'
/** The page shows images of products from elsewhere; a mail gets none, since its template may count who opens it. */
const NO_PICTURES = `<!doctype html><meta http-equiv="content-security-policy" content="img-src data:">`

const shown = new WeakMap<HTMLElement, AbortController>()

/** Shows a mail in `root`, with what went out or will go out, and keeps it up to date until `signal` aborts or `root` shows another. */
export function showMail(root: HTMLElement, eventId: string, { signal, may, report, tell }: Omit<ScreenContext, 'parameters'>): void {
  shown.get(root)?.abort()
  const own = new AbortController()
  shown.set(root, own)
  const until = AbortSignal.any([signal, own.signal])
  const path = pathOf`/admin/mails/${eventId}`
  const [head, content] = [create('div'), create('div', { class: 'mail-view' })]
  replaceChildren(root, head, content)
  let renderedBefore: string | undefined

  const show = (mail: Schemas['Mail']) => {
    const retry = button('Retry this mail', retryShown, report)
    const again = button('Send this mail again', sendShownAgain, report)
    // A notice to a former address is sent once.
    const action = { failed: retry, sent: mail.kind === 'readdressed' || mail.complained_at !== null ? null : again, queued: null }[
      mail.status
    ]
    replaceChildren(head, headersOf(mail), action !== null && may('mails:send') && create('p', { class: 'actions' }, action))
    // The frame keeps its place while only the status changes.
    const rendered = JSON.stringify(mail.rendered)
    if (rendered !== renderedBefore) replaceChildren(content, ...renderedMail(mail.rendered))
    renderedBefore = rendered
  }
  const retryShown = async () => {
    const mail = await retryMail(eventId, until)
    if (mail === null) return
    show(mail)
    tell('The mail is queued again.')
  }
  const sendShownAgain = async () => {
    if (!(await confirmAction(SEND_AGAIN, until))) return
    await call('POST', pathOf`/admin/mails/${eventId}/send-again`, { signal: until })
    tell('A copy of the mail is queued.')
  }
  poll<Schemas['Mail']>(path, { seconds: 5, signal: until, onChange: show, onError: report, endsAt: [404] })
}

/** Queues a failed mail again when the operator confirms it; null when not. */
export async function retryMail(eventId: string, signal: AbortSignal): Promise<Schemas['Mail'] | null> {
  if (!(await confirmAction(RETRY, signal))) return null
  return call<Schemas['Mail']>('POST', pathOf`/admin/mails/${eventId}/retry`, { signal })
}

/** A link to the order of a mail. */
export function orderLink({ order_id, order_number }: Pick<Schemas['Mail'], 'order_id' | 'order_number'>): HTMLElement {
  return link(orderAddress(order_id), order_number ?? order_id)
}

function headersOf(mail: Schemas['Mail']): HTMLElement {
  return facts(
    ['Mail', mail.copy_of === null ? mail.kind : `${mail.kind}, sent again`],
    ['Status', stateBadge(mail.status)],
    ['Order', orderLink(mail)],
    ['To', mail.to ?? 'the account was deleted'],
    ['Subject', mail.rendered?.subject],
    ['Attempts', String(mail.attempts)],
    ['Queued', timeElement(mail.queued_at)],
    ['Next attempt', mail.next_attempt_at && timeElement(mail.next_attempt_at)],
    ['Sent', mail.sent_at && timeElement(mail.sent_at)],
    ['Failed', mail.status === 'failed' ? timeElement(mail.failed_at) : null],
    ['Reason', mail.last_error],
    ['Came back', mail.bounced_at && timeElement(mail.bounced_at)],
    ['Because', mail.bounce_reason],
    ['Called spam', mail.complained_at && timeElement(mail.complained_at)],
  )
}

/** The HTML of a mail, in a frame that runs no scripts and loads nothing from elsewhere, and its text. */
export function renderedMail(rendered: Schemas['RenderedMail'] | null): HTMLElement[] {
  if (rendered === null) {
    const reasons = 'the account was deleted, its order is gone, or this process of the store cannot use the mail templates'
    return [note(`The content of this mail is not known any more: ${reasons}.`)]
  }
  const frame = create('iframe', { title: 'HTML of the mail', referrerPolicy: 'no-referrer' })
  // An empty sandbox forbids scripts, forms and windows. The policy of this page applies in it, too.
  frame.setAttribute('sandbox', '')
  frame.srcdoc = NO_PICTURES + rendered.html + INERT_LINKS
  const text = create('pre', { tabIndex: 0, attributes: { role: 'region', 'aria-label': 'Text of the mail' } }, rendered.text)
  return [create('section', {}, create('h4', {}, 'HTML'), frame), create('section', {}, create('h4', {}, 'Text'), text)]
}

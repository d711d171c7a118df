import { restartable, type Schemas } from './api.ts'
import { actions, button, card, create, note, replaceChildren, table } from './dom.ts'
import { retryMail, showMail } from './mail-view.ts'
import { stepElement } from './order-parts.ts'
import type { ScreenContext } from './screen.ts'
import { mailBadge, stateBadge } from './state-badge.ts'

type Entry = Schemas['TimelineEntry']

/** What the pipeline did with each change of an order, and beside it the mail of the chosen one. */
export function timeline(orderId: string, context: ScreenContext): { element: HTMLElement; show(entries: readonly Entry[]): void } {
  const steps = create('div')
  const mail = create('div')
  const hasMails = context.may('mails:read')
  const element = create('div', { class: 'cards timeline' }, card('Timeline', steps), ...(hasMails ? [card('Mail', mail)] : []))
  let chosen = Number(context.parameters.get('event') ?? 0)
  let shown = ''
  let shownMail: string | null = null
  let entries: readonly Entry[] = []

  function choose(version: number): void {
    chosen = version
    const address = new URLSearchParams(location.hash.split('?')[1])
    address.set('event', String(version))
    history.replaceState(null, '', `#orders?${address}`)
    show(entries)
  }

  function show(next: readonly Entry[]): void {
    entries = next
    const version = entries.some((entry) => entry.version === chosen) ? chosen : (entries.at(-1)?.version ?? 1)
    const text = JSON.stringify([entries, version])
    if (text === shown) return
    shown = text
    const focused = steps.contains(document.activeElement) ? document.activeElement?.getAttribute('aria-label') : null
    const rows = entries.map((entry) => [...cells(entry), ...(hasMails ? [mailCell(entry, entry.version === version)] : [])])
    const columns = ['Change', 'Made', 'Published', 'Mail', 'Mail sent', 'Lake', ...(hasMails ? ['Shown'] : [])]
    replaceChildren(steps, table('Timeline', columns, rows))
    if (focused) [...steps.querySelectorAll('button')].find((button) => button.getAttribute('aria-label') === focused)?.focus()
    if (hasMails) showMailOf(entries.find((entry) => entry.version === version))
  }

  /** The mail keeps itself up to date while it is shown. */
  function showMailOf(entry: Entry | undefined): void {
    const eventId = entry?.mail ? `${orderId}.${entry.version}` : null
    if (eventId === shownMail && mail.childElementCount > 0) return
    shownMail = eventId
    replaceMail(eventId)
  }

  const replaceMail = restartable(context.signal, (signal, eventId: string | null) => {
    const content = create('div')
    replaceChildren(mail, content)
    if (eventId === null) content.append(note('This change has no mail, or none yet.'))
    else showMail(content, eventId, { ...context, signal })
  })

  function mailCell(entry: Entry, isShown: boolean): HTMLElement {
    const canRetry = entry.mail?.status === 'failed' && context.may('mails:send')
    return actions(mailButton(entry, isShown), canRetry && retryButton(entry))
  }

  /** Queues a failed mail again, as the screen Mails does; the timeline shows the attempt when it asks the next time. */
  function retryButton({ version, status }: Entry): HTMLButtonElement {
    const retry = async () => {
      if (await retryMail(`${orderId}.${version}`, context.signal)) context.tell('The mail is queued again.')
    }
    return Object.assign(button('Send again', retry, context.report), { ariaLabel: `Send again the mail of change ${version}, ${status}` })
  }

  function mailButton({ version, status }: Entry, isShown: boolean): HTMLElement {
    const label = `Show the mail of change ${version}, ${status}`
    const element = create('button', { type: 'button', attributes: { 'aria-label': label, 'aria-pressed': String(isShown) } }, 'Mail')
    element.addEventListener('click', () => choose(version))
    return element
  }

  return { element, show }
}

function cells({ version, status, at, published_at, mail, mail_copies, lake_at }: Entry) {
  return [
    create('span', {}, `${version} `, stateBadge(status)),
    stepElement(at, null),
    stepElement(published_at, at),
    mail === null ? '–' : create('span', {}, mailBadge(mail), ` ${attemptsText(mail.attempts)}`),
    mail === null ? '–' : create('span', {}, stepElement(mail.sent_at ?? mail.failed_at, mail.queued_at), ...mail_copies.flatMap(copyOf)),
    stepElement(lake_at, published_at),
  ]
}

function copyOf(mail: Entry['mail_copies'][number]): (HTMLElement | string)[] {
  return ['; again ', mailBadge(mail), ' ', stepElement(mail.sent_at ?? mail.failed_at, mail.queued_at)]
}

function attemptsText(attempts: number): string {
  return attempts === 1 ? '1 attempt' : `${attempts} attempts`
}

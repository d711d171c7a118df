import { call, type Schemas, withQuery } from './api.ts'
import { confirmAction } from './dialog.ts'
import { create, note, replaceChildren, table, timeElement, viewLink } from './dom.ts'
import { choice } from './form.ts'
import { showTemplates } from './mail-templates.ts'
import { orderLink, showMail } from './mail-view.ts'
import { poll } from './poll.ts'
import type { Screen, ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

const STATUSES = ['queued', 'sent', 'failed']
const FILTERS = ['status', 'order', 'email']
const RETRY_ALL = {
  title: 'Retry all failed mails?',
  text: ['They are queued again. The filters of the list do not limit this.'],
  action: 'Retry all',
}

/** `#mails` lists mails, with filters; `#mails?mail=EVENT_ID` shows one, `#mails?template=NAME` a template. */
export const mails: Screen = {
  title: 'Mails',
  scopes: ['mails:read'],
  open(root, context) {
    const { parameters } = context
    const eventId = parameters.get('mail')
    const template = parameters.get('template')
    const isList = eventId === null && template === null
    root.append(
      create('h2', {}, 'Mails'),
      create(
        'nav',
        { attributes: { 'aria-label': 'Views of mails' } },
        viewLink('#mails', 'All mails', isList),
        viewLink('#mails?template=created', 'Templates', template !== null),
      ),
    )
    if (eventId !== null) return openMail(root, eventId, context)
    if (template !== null) return showTemplates(root, template, context)
    openList(root, context)
  },
}

function openMail(root: HTMLElement, eventId: string, context: ScreenContext): void {
  const { mail: _, ...filters } = Object.fromEntries(context.parameters)
  const heading = create('h3', { tabIndex: -1 }, 'One mail')
  const view = create('article', { class: 'card' })
  root.append(create('p', {}, create('a', { href: withQuery('#mails', filters) }, '← Back to the list')), heading, view)
  showMail(view, eventId, context)
  heading.focus()
}

function openList(root: HTMLElement, { parameters, signal, may, report, tell }: ScreenContext): void {
  const given = Object.fromEntries(parameters)
  const filters = Object.fromEntries(Object.entries(given).filter(([name]) => FILTERS.includes(name)))
  const list = create('div')
  const retry = create('button', { type: 'button' }, 'Retry all failed mails')
  root.append(filterForm(filters), list, ...(may('mails:send') ? [create('p', { class: 'actions' }, retry)] : []))

  const path = withQuery('/admin/mails', { ...filters, cursor: given.cursor, limit: 50 })
  const show = (page: Schemas['MailSummaryPage']) => {
    const focused = list.contains(document.activeElement) ? document.activeElement?.getAttribute('href') : null
    replaceChildren(list, ...listOf(page, filters, given.cursor !== undefined))
    if (focused) list.querySelector<HTMLElement>(`a[href="${CSS.escape(focused)}"]`)?.focus()
  }
  const load = async () => show(await call<Schemas['MailSummaryPage']>('GET', path, { signal }))
  // New mails appear on the newest page only.
  if (given.cursor === undefined) poll<Schemas['MailSummaryPage']>(path, { seconds: 5, signal, onChange: show, onError: report })
  else load().catch(report)

  retry.addEventListener('click', async () => {
    try {
      if (!(await confirmAction(RETRY_ALL, signal))) return
      const { queued, has_more } = await call<Schemas['MailRetry']>('POST', '/admin/mails/retry', { signal })
      tell(`${queued} ${queued === 1 ? 'mail is' : 'mails are'} queued again.${has_more ? ' More have failed: retry again.' : ''}`)
      await load()
    } catch (error) {
      report(error)
    }
  })
}

function filterForm(filters: Readonly<Record<string, string>>): HTMLElement {
  const status = choice({ name: 'status' }, [['', 'all'], ...STATUSES], filters.status ?? '')
  const order = create('input', { name: 'order', value: filters.order ?? '', pattern: '\\s*([0-9]{1,18}|[0-9a-f\\-]{36})\\s*' })
  order.title = "An order's number or id"
  const email = create('input', { type: 'email', name: 'email', value: filters.email ?? '', autocomplete: 'off' })
  const form = create(
    'form',
    { class: 'filters', attributes: { role: 'search', 'aria-label': 'Mails' } },
    create('label', {}, 'Status ', status),
    create('label', {}, 'Order ', order),
    create('label', {}, 'Address ', email),
    create('button', { type: 'submit' }, 'Filter'),
    Object.keys(filters).length > 0 && create('a', { href: '#mails' }, 'Clear filters'),
  )
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    location.hash = withQuery('#mails', { status: status.value, order: order.value.trim(), email: email.value.trim() })
  })
  return form
}

function listOf(
  { data, next_cursor }: Schemas['MailSummaryPage'],
  filters: Readonly<Record<string, string>>,
  isOlder: boolean,
): HTMLElement[] {
  const rows = data.map((mail) => [
    create('a', { href: withQuery('#mails', { ...filters, mail: mail.event_id }) }, mail.kind),
    stateBadge(mail.status),
    orderLink(mail),
    mail.to ?? create('span', { class: 'muted' }, 'deleted account'),
    timeElement(mail.queued_at),
    timeElement(mail.sent_at ?? mail.next_attempt_at),
    mail.attempts,
    mail.last_error,
  ])
  const columns = ['Mail', 'Status', 'Order', 'To', 'Queued', 'Sent or next attempt', { number: 'Attempts' }, 'Reason']
  const older = next_cursor !== null && create('a', { href: withQuery('#mails', { ...filters, cursor: next_cursor }) }, 'Older mails')
  const newest = isOlder && create('a', { href: withQuery('#mails', filters) }, 'Newest mails')
  return [data.length === 0 ? note('No mails.') : table('Mails', columns, rows), create('p', { class: 'actions' }, newest, older)]
}

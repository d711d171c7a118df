import { call, pathOf, poll, type Schemas, withQuery } from './api.ts'
import { confirmAction } from './dialog.ts'
import { badge, button, create, facts, link, note, replaceChildren, table, timeElement } from './dom.ts'
import { choice, labelled, searchForm } from './form.ts'
import { orderLink, renderedMail, showMail } from './mail-view.ts'
import type { Screen, ScreenContext } from './screen.ts'
import { mailBadge } from './state-badge.ts'

const STATUSES = ['queued', 'sent', 'failed']
const FILTERS = ['status', 'order', 'email', 'undelivered']
const RETRY_ALL = {
  title: 'Retry all failed mails?',
  text: ['All failed mails are queued again. The filters of the list do not limit this.'],
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
        link('#mails', 'All mails', isList && 'page'),
        link('#mails?template=created', 'Templates', template !== null && 'page'),
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
  root.append(create('p', {}, link(withQuery('#mails', filters), '← Back to the list')), heading, view)
  showMail(view, eventId, context)
  heading.focus()
}

function openList(root: HTMLElement, { parameters, signal, may, report, tell }: ScreenContext): void {
  const given = Object.fromEntries(parameters)
  const filters = Object.fromEntries(Object.entries(given).filter(([name]) => FILTERS.includes(name)))
  const list = create('div')
  const retry = button('Retry all failed mails', retryAll, report)
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

  async function retryAll(): Promise<void> {
    if (!(await confirmAction(RETRY_ALL, signal))) return
    const { queued, has_more } = await call<Schemas['MailRetry']>('POST', '/admin/mails/retry', { signal })
    tell(`${queued} ${queued === 1 ? 'mail is' : 'mails are'} queued again.${has_more ? ' More have failed: retry again.' : ''}`)
    await load()
  }
}

function filterForm(filters: Readonly<Record<string, string>>): HTMLElement {
  const status = choice({ name: 'status' }, [['', 'all'], ...STATUSES], filters.status ?? '')
  const undelivered = choice(
    { name: 'undelivered' },
    [
      ['', 'all'],
      ['true', 'not received'],
    ],
    filters.undelivered ?? '',
  )
  const order = create('input', { name: 'order', value: filters.order ?? '', pattern: '\\s*([0-9]{1,18}|[0-9a-f\\-]{36})\\s*' })
  order.title = "An order's number or id"
  const email = create('input', { type: 'email', name: 'email', value: filters.email ?? '', autocomplete: 'off' })
  const onSearch = (entered: Record<string, string>) => {
    location.hash = withQuery('#mails', entered)
  }
  return searchForm(
    'Mails',
    onSearch,
    labelled('Status', status),
    labelled('Received', undelivered),
    labelled('Order', order),
    labelled('Address', email),
    create('button', { type: 'submit' }, 'Filter'),
    Object.keys(filters).length > 0 && link('#mails', 'Clear filters'),
  )
}

function listOf(
  { data, next_cursor }: Schemas['MailSummaryPage'],
  filters: Readonly<Record<string, string>>,
  isOlder: boolean,
): HTMLElement[] {
  const rows = data.map((mail) => [
    link(withQuery('#mails', { ...filters, mail: mail.event_id }), mail.copy_of === null ? mail.kind : `${mail.kind} (copy)`),
    mailBadge(mail),
    orderLink(mail),
    mail.to ?? create('span', { class: 'muted' }, 'deleted account'),
    timeElement(mail.queued_at),
    timeElement(mail.sent_at ?? mail.next_attempt_at),
    mail.attempts,
    mail.bounce_reason ?? mail.last_error,
  ])
  const columns = ['Mail', 'Status', 'Order', 'To', 'Queued', 'Sent or next attempt', { number: 'Attempts' }, 'Reason']
  const older = next_cursor !== null && link(withQuery('#mails', { ...filters, cursor: next_cursor }), 'Older mails')
  const newest = isOlder && link(withQuery('#mails', filters), 'Newest mails')
  return [data.length === 0 ? note('No mails.') : table('Mails', columns, rows), create('p', { class: 'actions' }, newest, older)]
}

const LANGUAGES: readonly Schemas['MailTemplate']['language'][] = ['en', 'de', 'fr', 'es']
/** Suggestions: any tag of a language can be typed. */
const LOCALES = ['en', 'en-GB', 'de', 'de-AT', 'de-CH', 'fr', 'es', 'it', 'nl', 'pl', 'pt-BR', 'sv', 'tr', 'ja', 'zh', 'hi', 'ar']

/** Shows the templates, and the mail that one of them makes of an invented order. */
function showTemplates(root: HTMLElement, name: string, { parameters, signal, report }: ScreenContext): void {
  const shown = { language: parameters.get('language') ?? '', locale: parameters.get('locale') ?? '' }
  const list = create('div')
  const preview = create('article', { class: 'card' })
  root.append(list, languageForm(name, shown), preview)
  call<Schemas['MailTemplateList']>('GET', '/admin/mail-templates', { signal })
    .then(({ data }) => replaceChildren(list, templateTable(data, name, shown)))
    .catch(report)
  const path = withQuery(pathOf`/admin/mail-templates/${name}`, shown)
  const show = (mail: Schemas['MailTemplatePreview']) => {
    const amounts = mail.locale === null ? '' : `, amounts in ${languageOf(mail.locale)}`
    replaceChildren(
      preview,
      create('h3', {}, `Preview: ${mail.name} in ${languageOf(mail.language)}${amounts}`),
      facts(['Subject', mail.rendered.subject]),
      create('div', { class: 'mail-view' }, ...renderedMail(mail.rendered)),
    )
  }
  call<Schemas['MailTemplatePreview']>('GET', path, { signal }).then(show).catch(report)
}

function templateTable(templates: readonly Schemas['MailTemplate'][], current: string, shown: Shown): HTMLElement {
  const rows = templates.map(({ name, kind, source, own_files }) => {
    return [
      link(withQuery('#mails', { template: name, ...shown }), name, name === current && 'true'),
      kind,
      source === 'shop' ? badge("the shop's own", 'good') : badge('built in'),
      own_files.join(', '),
    ]
  })
  return table('Templates', ['Template', 'About', 'Text', 'Own files'], rows)
}

interface Shown {
  language: string
  locale: string
}

function languageForm(name: string, { language, locale }: Shown): HTMLElement {
  const languages = choice(
    { name: 'language' },
    [['', "the store's"], ...LANGUAGES.map((tag) => [tag, languageOf(tag)] as const)],
    language,
  )
  const options = create('datalist', { id: 'locales' }, ...LOCALES.map((tag) => create('option', { value: tag }, languageOf(tag))))
  const input = create('input', {
    name: 'locale',
    value: locale,
    placeholder: 'as usual in it',
    maxLength: 35,
    attributes: { list: 'locales' },
  })
  const form = create(
    'form',
    { class: 'filters' },
    labelled('Language', languages),
    labelled('Amounts as in', input),
    options,
    create('button', { type: 'submit' }, 'Preview'),
  )
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    location.hash = withQuery('#mails', { template: name, language: languages.value, locale: input.value.trim() })
  })
  return form
}

/** `DisplayNames` refuses extensions of a tag, such as `-u-nu-arab`. */
function languageOf(tag: string): string {
  return `${new Intl.DisplayNames(undefined, { type: 'language' }).of(new Intl.Locale(tag).baseName)} (${tag})`
}

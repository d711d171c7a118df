import { formatMoney } from '../../client/src/currency.ts'
import type { Language } from '../language.ts'
import { MAIL_TEXTS } from './built-in-templates.ts'
import type { StaffMailKind } from './mail-kinds.ts'
import { oneLine } from './mailer.ts'
import { isOrderMailKind } from './render-mail.ts'
import type { StaffNotice, StaffNotices } from './staff-notices.ts'

/** The console's page with all items of a kind, and its page for one item. */
const PAGES: Readonly<Record<StaffMailKind, readonly [all: string, one: string]>> = {
  staff_orders: ['#orders', '#orders?order='],
  staff_sold_out: ['#products', '#products?product='],
  staff_failed_mails: ['#mails?undelivered=true', '#mails?mail='],
}

interface View {
  consoleUrl: string
  language: Language
  locale: string
}

/** The values for the templates of staff mails. Pure. */
export function viewNotices(kind: StaffMailKind, { count, list }: StaffNotices, { consoleUrl, language, locale }: View) {
  const [all, one] = PAGES[kind]
  const notices = list.map((notice) => ({
    title: titleOf(notice, language),
    detail: notice.total === undefined ? '' : formatMoney(notice.total, locale),
    url: `${consoleUrl}${one}${encodeURIComponent(notice.id)}`,
  }))
  return {
    notices,
    console: `${consoleUrl}${all}`,
    first: notices[0]?.title ?? '',
    others: count > 1 ? String(count - 1) : '',
    more_items: count > notices.length ? String(count - notices.length) : '',
  }
}

/** A mail's usual subject names it. */
function titleOf({ name, mail }: StaffNotice, language: Language): string {
  if (mail === undefined || !isOrderMailKind(mail)) return oneLine(name)
  return MAIL_TEXTS[language].orders[mail].subject.replace('{{number}}', name)
}

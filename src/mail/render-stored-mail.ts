import type { OrderEvent } from '../orders/events.ts'
import { originalOf } from './copy-id.ts'
import type { MailWithContent } from './find-mails.ts'
import { isOrderMailKind, mailKindOf, mailsOf, type RenderMail } from './render-mail.ts'
import type { RenderedMail } from './templates.ts'

/**
 * What was or will be sent. `event` is the mail's, or its original's, made again from the order's row; it is
 * needed once the mail is sent.
 * Returns null when the account was deleted, or neither the content nor the event is known. Pure.
 */
export function renderStoredMail(render: RenderMail, mail: MailWithContent, event: OrderEvent | null): RenderedMail | null {
  if (mail.to === null || !isOrderMailKind(mailKindOf(mail.event_type))) return null
  const found = event === null ? undefined : mailsOf(event).find(({ event_id }) => event_id === originalOf(mail.event_id))
  const content = mail.content ?? (found === undefined ? null : { ...found, event_id: mail.event_id })
  return content === null ? null : render(content, mail.customer_name, mail.language)
}

import type { OrderEvent } from '../orders/events.ts'
import type { MailWithContent } from './find-mails.ts'
import { isOrderMailKind, mailKindOf, type RenderMail, toMailContent } from './render-mail.ts'
import type { RenderedMail } from './templates.ts'

/**
 * What was or will be sent. `event` is the mail's, or its original's, made again from the order's row; it is
 * needed once the mail is sent.
 * Returns null when the account was deleted, or neither the content nor the event is known. Pure.
 */
export function renderStoredMail(render: RenderMail, mail: MailWithContent, event: OrderEvent | null): RenderedMail | null {
  if (mail.to === null || !isOrderMailKind(mailKindOf(mail.event_type))) return null
  const content = mail.content ?? (event === null ? null : { ...toMailContent(event), event_id: mail.event_id })
  return content === null ? null : render(content, mail.customer_name, mail.language)
}

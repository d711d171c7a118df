import type { OrderEvent } from '../orders/events.ts'
import { originalOf } from './copy-id.ts'
import type { MailWithContent } from './find-mails.ts'
import { isOrderMailKind, mailKindOf, mailsOf, type RenderMail } from './render-mail.ts'
import type { RenderedMail } from './templates.ts'

/**
 * The mail that was or will be sent. `event` is the mail's or its original's event, rebuilt from the order's row; a
 * sent mail needs it. Returns null for a deleted account, and if neither content nor event is known. Pure.
 */
export function renderStoredMail(render: RenderMail, mail: MailWithContent, event: OrderEvent | null): RenderedMail | null {
  if (mail.to === null || !isOrderMailKind(mailKindOf(mail.event_type))) return null
  const found = event === null ? undefined : mailsOf(event).find(({ event_id }) => event_id === originalOf(mail.event_id))
  const content = mail.content ?? (found === undefined ? null : { ...found, event_id: mail.event_id })
  return content === null ? null : render(content, mail.customer_name, mail.language)
}

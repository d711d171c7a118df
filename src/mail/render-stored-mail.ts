import type { OrderEvent } from '../orders/events.ts'
import { originalOf } from './copy-id.ts'
import type { MailWithContent } from './find-mails.ts'
import { isOrderMailKind, mailKindOf, mailsOf, type RenderMail } from './render-mail.ts'
import type { RenderedMail } from './templates.ts'

/**
 * Renders a mail as it was sent or will be sent. `event` is rebuilt from the order's row; for a copy it is the
 * original's event. A sent mail needs it, because its content was deleted. Returns null for a deleted account, and if
 * neither content nor event is known. Pure.
 */
export function renderStoredMail(render: RenderMail, mail: MailWithContent, event: OrderEvent | null): RenderedMail | null {
  if (mail.to === null || !isOrderMailKind(mailKindOf(mail.event_type))) return null
  const found = event === null ? undefined : mailsOf(event).find(({ event_id }) => event_id === originalOf(mail.event_id))
  const content = mail.content ?? (found === undefined ? null : { ...found, event_id: mail.event_id })
  return content === null ? null : render({ ...content, item_attributes: mail.item_attributes }, mail.customer_name, mail.language)
}

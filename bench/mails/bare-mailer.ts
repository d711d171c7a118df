// The floor of mails: nodemailer alone, pooled like in the store. It sends one mail of the store's templates as often
// as requested.
import { createTransport } from 'nodemailer'
import { exampleMailContent } from '../../src/mail/example-mail.ts'
import { mailLanguages } from '../../src/mail/mail-languages.ts'
import { toMessage } from '../../src/mail/mailer.ts'
import { createMailRenderer } from '../../src/mail/render-mail.ts'
import { createTemplateReader } from '../../src/mail/templates.ts'
import { nowMs } from '../rig/clock.ts'

export interface BareLoad {
  port: number
  mails: number
}

const AT_ONCE = 16

process.on('message', async ({ port, mails }: BareLoad) => {
  const transport = createTransport({ host: '127.0.0.1', port, pool: true, maxConnections: 5, maxMessages: Number.POSITIVE_INFINITY })
  const content = exampleMailContent('created', 'EUR')
  const rendered = createMailRenderer(
    { orderUrl: 'https://shop.example/order' },
    createTemplateReader(null),
    mailLanguages('en', null),
  )(content, 'Ada')
  const mail = { ...rendered, eventId: content.event_id, to: { address: 'ada@example.com', name: 'Ada' }, date: new Date() }
  const message = toMessage(mail, { from: 'Store <no-reply@store.example>' })
  let left = mails
  const send = async () => {
    while (left-- > 0) await transport.sendMail({ ...message })
  }
  const startedMs = nowMs()
  await Promise.all(Array.from({ length: AT_ONCE }, send))
  process.send?.({ seconds: (nowMs() - startedMs) / 1_000 })
  transport.close()
})

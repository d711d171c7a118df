import pino from 'pino'
import { createPool } from '../src/db/pool.ts'
import { DeliveryQueue } from '../src/deliveries/delivery-queue.ts'
import { createEmailSubscriber } from '../src/mail/email-subscriber.ts'
import { mailLanguages } from '../src/mail/mail-languages.ts'
import { createMailRenderer } from '../src/mail/render-mail.ts'
import { createSmtpMailer } from '../src/mail/smtp-mailer.ts'
import { createTemplateReader } from '../src/mail/templates.ts'

// Sends the mails that wait in a database until it is killed: node test/mail-worker-process.ts DATABASE_URL SMTP_URL
const [, , url = '', smtpUrl = ''] = process.argv
const logger = pino({ level: 'silent' })
const pool = createPool({ url, size: 4, applicationName: 'mail-worker', onError: () => {} })
const deliveries = new DeliveryQueue({ pool, logger })
await deliveries.start()
await createEmailSubscriber({
  pool,
  deliveries,
  mailer: createSmtpMailer({ url: smtpUrl, from: 'The Store <no-reply@store.example>' }),
  makeOrderToken: () => 'order-token',
  render: createMailRenderer({ orderUrl: 'https://shop.example/order' }, createTemplateReader(null), mailLanguages('en', null)),
  logger,
  now: () => new Date(),
  maxPerHour: null,
}).start()

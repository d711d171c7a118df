import pino from 'pino'
import { createPool } from '../src/db/pool.ts'
import { createJobQueue } from '../src/jobs/job-queue.ts'
import { createEmailSubscriber } from '../src/mail/email-subscriber.ts'
import { mailLanguages } from '../src/mail/mail-languages.ts'
import { createMailRenderer } from '../src/mail/render-mail.ts'
import { createSmtpMailer } from '../src/mail/smtp-mailer.ts'
import { createTemplateReader } from '../src/mail/templates.ts'

// Sends the mails that wait in a database until it is killed: node test/mail-worker-process.ts DATABASE_URL SMTP_URL SUPERVISE_SECONDS
const [, , url = '', smtpUrl = '', superviseSeconds = ''] = process.argv
const logger = pino({ level: 'silent' })
const jobs = createJobQueue({ url, logger, superviseSeconds: Number(superviseSeconds) })
await jobs.start()
await createEmailSubscriber({
  pool: createPool({ url, size: 4, applicationName: 'mail-worker', onError: () => {} }),
  jobs,
  mailer: createSmtpMailer({ url: smtpUrl, from: 'The Store <no-reply@store.example>' }),
  render: createMailRenderer(createTemplateReader(null), mailLanguages('en', null)),
  logger,
  now: () => new Date(),
  maxPerHour: null,
}).start()

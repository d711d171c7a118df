import { randomUUIDv7 } from 'node:crypto'
import mustache from 'mustache'
import type { Logger } from 'pino'
import type { Encryption, Reencrypt } from '../auth/store-secret.ts'
import type { Transaction } from '../db/pool.ts'
import { changeJobData, type JobQueue, type QueueDefinition } from '../jobs/job-queue.ts'
import type { Job, JobOutcome, JobWorker } from '../jobs/job-worker.ts'
import { describeError, type Mailer, MailRefused, type OnMailTried } from './mailer.ts'
import { type RenderedMail, renderPair } from './render-mail.ts'
import type { ReadTemplate } from './templates.ts'

/** For `installJobQueues`. People wait for these mails, so the pauses between attempts stay short. */
export const ACCOUNT_MAIL_QUEUE: QueueDefinition = {
  name: 'account-mail',
  retryDelaySeconds: 2,
  retryDelayMaxSeconds: 60,
  keepSeconds: 3_600,
}

const WORK = { batchSize: 20, concurrency: 4, fetchers: 1 }
const VALUES = ['token', 'link']
const PARTIALS = ['header', 'action', 'footer']
const KINDS = ['verify_email', 'reset_password', 'already_registered', 'password_changed'] as const

/** A mail about an account and not about an order. */
export interface AccountMailContent {
  kind: (typeof KINDS)[number] | 'none'
  to?: string
  /** The one-time token in it. */
  token?: string
  expiresAt: Date
}

interface EncryptedMail {
  encrypted: string
  /** RFC 3339. The mail is not sent after this time. */
  expires_at: string
}

/** Queues an account mail: it is sent if `tx` commits. */
export async function queueAccountMail(tx: Transaction, jobs: JobQueue, encryption: Encryption, mail: AccountMailContent): Promise<void> {
  const { expiresAt, ...content } = mail
  const data: EncryptedMail = {
    encrypted: await encryption.encrypt(tx, JSON.stringify(content)),
    expires_at: expiresAt.toISOString(),
  }
  await jobs.send(tx, ACCOUNT_MAIL_QUEUE.name, [{ id: randomUUIDv7(), data }])
}

/** Encrypts the queued mails with the new secret. Returns their number, and that of undecryptable ones, which stay. */
export async function reencryptQueuedMails(tx: Transaction, reencrypt: Reencrypt): Promise<{ reencrypted: number; undecryptable: number }> {
  const { changed, unchanged } = await changeJobData<EncryptedMail>(tx, ACCOUNT_MAIL_QUEUE.name, (mail) => {
    const encrypted = reencrypt(mail.encrypted)
    return encrypted === null ? null : { ...mail, encrypted }
  })
  return { reencrypted: changed, undecryptable: unchanged }
}

export interface AccountMailWorkerOptions {
  jobs: JobQueue
  /** Closed by the caller, after this worker has stopped. */
  mailer: Mailer
  encryption: Encryption
  /** The page of the shop that accepts one-time tokens; null when a mail shows the token itself. */
  accountUrl: string | null
  readTemplate: ReadTemplate
  logger: Logger
  now: () => Date
  /** Called with the outcome of each attempt. */
  onTried?: OnMailTried
}

/** Sends account mails, at least once, until they go out or have expired. `jobs` must have been started. */
export function createAccountMailWorker(options: AccountMailWorkerOptions) {
  const { jobs, mailer, encryption, logger, now, onTried } = options
  const render = createAccountMailRenderer(options.accountUrl, options.readTemplate)
  let worker: JobWorker | undefined

  async function deliver({ id, data }: Job<EncryptedMail>): Promise<JobOutcome> {
    if (new Date(data.expires_at) <= now()) {
      logger.warn({ job: id }, 'an account mail expired before it went out')
      onTried?.('failed')
      return 'failed'
    }
    const text = encryption.decrypt(data.encrypted)
    if (text === null) {
      logger.warn({ job: id }, "an account mail cannot be decrypted and waits: this process does not have the store's STOREFRONT_SECRET")
      return 'retry'
    }
    const { kind, to = '', token = '' }: AccountMailContent = JSON.parse(text)
    if (kind === 'none') return 'done'
    try {
      await mailer.send({ ...render(kind, token), eventId: id, to: { address: to, name: null }, date: now(), about: 'account' })
      onTried?.('sent')
      return 'done'
    } catch (error) {
      const isRefused = error instanceof MailRefused
      logger.warn(
        { job: id, kind, reason: describeError(error) },
        isRefused ? 'an account mail was refused' : 'an account mail could not be sent and is retried',
      )
      onTried?.(isRefused ? 'failed' : 'retried')
      return isRefused ? 'failed' : 'retry'
    }
  }

  return {
    async start(): Promise<void> {
      worker ??= await jobs.work<EncryptedMail>(ACCOUNT_MAIL_QUEUE.name, WORK, deliver)
    },
    /** Idempotent, safe before start. */
    async stop(): Promise<void> {
      await worker?.stop()
    },
  }
}

/** Reads the templates, once. */
function createAccountMailRenderer(accountUrl: string | null, readTemplate: ReadTemplate) {
  const read = (name: string) =>
    readTemplate(
      `account/${name}`,
      name.endsWith('.html') ? { values: [...VALUES, 'subject'], partials: PARTIALS } : { values: VALUES, partials: [] },
    )
  const texts = new Map(KINDS.map((kind) => [kind, read(`${kind}.txt`)]))
  const [header, action, footer] = [read('header.html'), read('action.html'), read('footer.html')]
  const mails = new Map(KINDS.map((kind) => [kind, read(`${kind}.html`)]))
  const writer = new mustache.Writer()

  return (kind: (typeof KINDS)[number], token: string): RenderedMail => {
    // In the fragment, which browsers send neither to a server nor to another site as a referrer.
    const link = accountUrl === null || token === '' ? null : `${accountUrl}#${kind.replaceAll('_', '-')}=${token}`
    return renderPair(writer, [texts.get(kind) ?? '', {}], [mails.get(kind) ?? '', { header, action, footer }], { token, link })
  }
}

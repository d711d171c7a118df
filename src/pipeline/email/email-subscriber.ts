import { createHash } from 'node:crypto'
import type { Logger } from 'pino'
import type { Pool, Transaction } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import type { OrderEvent } from '../../orders/events.ts'
import type { Job, JobOutcome, JobQueue, JobWorker, QueueDefinition } from '../job-queue.ts'
import type { MessageHandler } from '../topic.ts'
import { describeError, type Mailer, MailRefused } from './mailer.ts'
import { createMailRenderer, type MailContent, toMailContent } from './render-mail.ts'

/** For `installJobQueues`. With `MAX_ATTEMPTS` a mail is tried for about a day before it is given up. */
export const EMAIL_QUEUE: QueueDefinition = {
  name: 'email',
  retryDelaySeconds: 2,
  retryDelayMaxSeconds: 6 * 3_600,
  keepSeconds: 3 * 86_400,
}

const MAX_ATTEMPTS = 16
const WORK = { batchSize: 50, concurrency: 8, fetchers: 2 }

export interface EmailSubscriberOptions {
  pool: Pool
  jobs: JobQueue
  /** Closed by `stop`. */
  mailer: Mailer
  logger: Logger
  /** How often a mail is tried before it is given up. */
  maxAttempts?: number
}

export interface EmailSubscriber {
  handle: MessageHandler
  start(): Promise<void>
  /** Waits for the mails in hand, five seconds at most, and closes the mailer. Idempotent, safe before start. */
  stop(): Promise<void>
}

/**
 * Turns each order event into one mail to the customer: at least once, deduped by event id. The handler only queues, so a
 * mail server that is slow or down holds up nothing else. `jobs` must have been started.
 */
export function createEmailSubscriber(options: EmailSubscriberOptions): EmailSubscriber {
  const { pool, jobs, mailer, logger, maxAttempts = MAX_ATTEMPTS } = options
  const render = createMailRenderer()
  let worker: JobWorker | undefined

  async function deliver({ data: mail }: Job<MailContent>): Promise<JobOutcome> {
    const attempt = await beginAttempt(pool, mail.event_id)
    // Sent before a crash that came before the job was settled, or given up before.
    if (attempt === null) return 'done'
    if (attempt.address === null) return giveUp(mail, 'the account no longer exists')
    if (attempt.number > maxAttempts) return giveUp(mail, 'the process ended during the last try')
    try {
      const rendered = render(mail, attempt.name)
      await mailer.send({
        ...rendered,
        eventId: mail.event_id,
        to: { address: attempt.address, name: attempt.name },
        date: new Date(mail.time),
      })
    } catch (error) {
      const reason = describeError(error)
      if (error instanceof MailRefused || attempt.number === maxAttempts) return giveUp(mail, reason)
      await recordError(pool, mail.event_id, reason)
      logger.info({ event: mail.event_id, attempt: attempt.number, reason }, 'a mail did not go out and is tried again')
      return 'retry'
    }
    await recordSent(pool, mail.event_id)
    return 'done'
  }

  async function giveUp(mail: MailContent, reason: string): Promise<JobOutcome> {
    await recordFailure(pool, mail.event_id, reason)
    logger.warn({ event: mail.event_id, reason }, 'a mail was given up')
    return 'failed'
  }

  return {
    async handle(messages) {
      const events = messages.map((message) => message.event)
      const queued = await inTransaction(pool, (tx) => queueMails(tx, jobs, events))
      if (queued > 0) worker?.wake()
    },

    async start() {
      worker ??= await jobs.work<MailContent>(EMAIL_QUEUE.name, WORK, deliver)
    },

    async stop() {
      await worker?.stop()
      await mailer.close()
    },
  }
}

/** One row and one job for each event that has none yet. Returns how many. */
async function queueMails(tx: Transaction, jobs: JobQueue, events: readonly OrderEvent[]): Promise<number> {
  const { rows } = await tx.query<{ event_id: string }>(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status)
     select event_id, order_id, user_id, event_type, 'queued'
     from unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[]) as event (event_id, order_id, user_id, event_type)
     on conflict (event_id) do nothing
     returning event_id`,
    [
      events.map((event) => event.id),
      events.map((event) => event.data.order.id),
      events.map((event) => event.data.order.user_id),
      events.map((event) => event.type),
    ],
  )
  const byId = new Map(events.map((event) => [event.id, event]))
  const queued = rows.flatMap(({ event_id }) => byId.get(event_id) ?? [])
  await jobs.send(
    tx,
    EMAIL_QUEUE.name,
    queued.map((event) => ({ id: jobIdOf(event.id), data: toMailContent(event) })),
  )
  return queued.length
}

/** A UUIDv8 (RFC 9562 §5.8) of the event id's SHA-256: one event cannot have two jobs. */
export function jobIdOf(eventId: string): string {
  const bytes = createHash('sha256').update(eventId).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

interface Attempt {
  number: number
  /** Null when the account is gone. */
  address: string | null
  name: string | null
}

// Counted before the try, so that a try which ends the process counts too. Null unless the mail is still to be sent.
async function beginAttempt(pool: Pool, eventId: string): Promise<Attempt | null> {
  const { rows } = await pool.query<Attempt>(
    `with attempt as (
       update email_deliveries
       set attempts = attempts + 1
       where event_id = $1 and status = 'queued'
       returning user_id, attempts
     )
     select attempt.attempts as number, users.email as address, users.name
     from attempt
     left join users on users.id = attempt.user_id`,
    [eventId],
  )
  return rows[0] ?? null
}

async function recordSent(pool: Pool, eventId: string): Promise<void> {
  await pool.query(
    `update email_deliveries
     set status = 'sent', sent_at = now(), last_error = null
     where event_id = $1`,
    [eventId],
  )
}

async function recordError(pool: Pool, eventId: string, reason: string): Promise<void> {
  await pool.query(`update email_deliveries set last_error = $2 where event_id = $1`, [eventId, reason])
}

async function recordFailure(pool: Pool, eventId: string, reason: string): Promise<void> {
  await pool.query(`update email_deliveries set status = 'failed', failed_at = now(), last_error = $2 where event_id = $1`, [
    eventId,
    reason,
  ])
}

import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { DeliveryQueue } from '../src/deliveries/delivery-queue.ts'
import { createEmailSubscriber, type EmailSubscriberOptions } from '../src/mail/email-subscriber.ts'
import { mailLanguages } from '../src/mail/mail-languages.ts'
import type { Mail, Mailer } from '../src/mail/mailer.ts'
import { createMailRenderer } from '../src/mail/render-mail.ts'
import { createTemplateReader } from '../src/mail/templates.ts'
import type { OrderEvent } from '../src/orders/events.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'

const logger = pino({ level: 'silent' })

/** A mail subscriber on its own database that collects the mails; `send` may make them fail. */
export async function startMailSubscriber(
  t: Cleanup,
  options: Partial<EmailSubscriberOptions> & { send?: (mail: Mail) => Promise<void> } = {},
) {
  const { send = async () => {}, ...overrides } = options
  const db = await createTestDatabase(t)
  const deliveries = new DeliveryQueue({ pool: db.pool, logger, longestPauseSeconds: 0 })
  await deliveries.start()
  const mails: Mail[] = []
  const mailer: Mailer = {
    connections: 16,
    async send(mail) {
      await send(mail)
      mails.push(mail)
    },
    async close() {},
  }
  const render = createMailRenderer({ orderUrl: 'https://shop.example/order' }, createTemplateReader(null), mailLanguages('en', null))
  const subscriber = createEmailSubscriber({
    pool: db.pool,
    deliveries,
    mailer,
    render,
    makeOrderToken: () => 'order-token',
    logger,
    now: () => new Date(),
    maxPerHour: null,
    ...overrides,
  })
  await subscriber.start()
  onCleanup(t, async () => {
    await subscriber.stop()
    await deliveries.stop()
  })
  const publish = (events: readonly OrderEvent[]) =>
    subscriber.handle(
      events.map((event, index) => ({ sequence: index + 1, event })),
      new AbortController().signal,
    )
  return { db, deliveries, mails, publish, handle: subscriber.handle }
}

export async function insertUser(db: TestDatabase, email: string, name: string | null = null): Promise<string> {
  const id = randomUUID()
  await db.pool.query(`insert into users (id, email, name, password_hash) values ($1, $2, $3, 'x')`, [id, email, name])
  return id
}

export interface Delivery {
  status: string
  attempts: number
  last_error: string | null
  sent_at: Date | null
  send_after: Date | null
}

export async function deliveryOf(db: TestDatabase, event: OrderEvent): Promise<Delivery | undefined> {
  const { rows } = await db.pool.query<Delivery>(
    `select status, attempts, last_error, sent_at, send_after from email_deliveries where event_id = $1`,
    [event.id],
  )
  return rows[0]
}

export function waitForDelivery(db: TestDatabase, event: OrderEvent, status: string, timeoutMs = 60_000): Promise<Delivery> {
  return eventually(
    async () => {
      const delivery = await deliveryOf(db, event)
      return delivery?.status === status && delivery
    },
    { what: `the mail is ${status}`, timeoutMs },
  )
}

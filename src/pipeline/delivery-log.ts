import type { Logger } from 'pino'
import { SEPARATOR } from '../db/json-texts.ts'
import type { Pool } from '../db/pool.ts'
import type { OrderEvent } from '../orders/events.ts'

/** What the log keeps of an event. */
export interface LoggedEvent {
  /** `<order id>.<version>` */
  eventId: string
  orderId: string
  version: number
}

export function toLoggedEvent({ id, data }: OrderEvent): LoggedEvent {
  return { eventId: id, orderId: data.order.id, version: data.order.version }
}

/** Messages of the topic's table that were in the lake together, by their sequences: each of them, from the first to the last. */
interface Stretch {
  first: number
  last: number
  at: Date
}

/** How far the event of one version has come, as far as it is known. */
interface Delivery {
  publishedAt: Date | null
  mail: { status: 'queued' | 'sent' | 'failed'; queuedAt: Date; sentAt: Date | null; failedAt: Date | null; attempts: number } | null
  lakeAt: Date | null
}

/** Times are RFC 3339, empty for none. */
type Entry = LoggedEvent & { publishedAt: string; lakeAt: string }

// A database that is away for long costs entries of the log, not memory.
const MAX_WAITING = 50_000
const MAX_WAITING_STRETCHES = 1_000
const BATCH_SIZE = 2_000

/**
 * Writes down when events were published and when they reached the lake, for people to look at. Where the topic is a table of the same
 * database that tells when they were published, and its messages are written down by stretches. It is written after the fact and beside
 * it: nobody waits for it, and what cannot be written is left out. Nothing is decided by it.
 */
export class DeliveryLog {
  readonly #pool: Pool
  readonly #logger: Logger
  readonly #now: () => Date
  #waiting = new Map<string, Entry>()
  #waitingStretches: Stretch[] = []
  #working: Promise<void> | null = null

  constructor({ pool, logger, now = () => new Date() }: { pool: Pool; logger: Logger; now?: () => Date }) {
    this.#pool = pool
    this.#logger = logger
    this.#now = now
  }

  async start(): Promise<void> {}

  /** Waits for what is to be written. Idempotent, safe before start. */
  async stop(): Promise<void> {
    await this.#working
  }

  readonly published = (events: readonly LoggedEvent[]): void => {
    const publishedAt = this.#now().toISOString()
    this.#add(events, (entry) => ({ ...entry, publishedAt }))
  }

  readonly inLake = (events: readonly LoggedEvent[]): void => {
    const lakeAt = this.#now().toISOString()
    this.#add(events, (entry) => ({ ...entry, lakeAt }))
  }

  /** As `inLake`, where the topic's own table tells which events are at these sequences, which grow. */
  readonly messagesInLake = (sequences: readonly number[]): void => {
    const at = this.#now()
    for (const sequence of sequences) {
      const last = this.#waitingStretches.at(-1)
      if (last?.at === at && sequence === last.last + 1) last.last = sequence
      else if (this.#waitingStretches.length < MAX_WAITING_STRETCHES) this.#waitingStretches.push({ first: sequence, last: sequence, at })
    }
    this.#startWork()
  }

  #add(events: readonly LoggedEvent[], change: (entry: Entry) => Entry): void {
    for (const { eventId, orderId, version } of events) {
      if (this.#waiting.size >= MAX_WAITING) break
      this.#waiting.set(eventId, change(this.#waiting.get(eventId) ?? { eventId, orderId, version, publishedAt: '', lakeAt: '' }))
    }
    this.#startWork()
  }

  #startWork(): void {
    this.#working ??= this.#work().finally(() => {
      this.#working = null
    })
  }

  async #work(): Promise<void> {
    while (this.#waiting.size + this.#waitingStretches.length > 0) {
      const entries = [...this.#waiting.values()].slice(0, BATCH_SIZE)
      for (const { eventId } of entries) this.#waiting.delete(eventId)
      await this.#try({ events: entries.length }, async () => entries.length > 0 && writeEntries(this.#pool, entries))
      const stretch = this.#waitingStretches.shift()
      if (stretch !== undefined) await this.#try({ stretch }, () => writeStretch(this.#pool, stretch))
    }
  }

  async #try(what: object, write: () => Promise<unknown>): Promise<void> {
    try {
      await write()
    } catch (error) {
      this.#logger.warn({ err: error, ...what }, 'the timeline of some orders has gaps: it could not be written')
    }
  }
}

async function writeEntries(pool: Pool, entries: readonly Entry[]): Promise<void> {
  // In one order everywhere: the processes of the stream and of the lake write the same rows.
  const sorted = entries.toSorted((a, b) => (a.eventId < b.eventId ? -1 : 1))
  const column = (textOf: (entry: Entry) => string | number) => sorted.map(textOf).join(SEPARATOR)
  const table = (parameter: number) => `string_to_table($${parameter}, '${SEPARATOR}')`
  await pool.query({
    name: 'log_deliveries',
    text: `insert into order_event_deliveries as delivery (order_id, version, published_at, lake_at)
    select order_id::uuid, version::integer, nullif(published_at, '')::timestamptz, nullif(lake_at, '')::timestamptz
    from rows from (${table(1)}, ${table(2)}, ${table(3)}, ${table(4)}) as entry (order_id, version, published_at, lake_at)
    on conflict (order_id, version) do update
      set published_at = coalesce(delivery.published_at, excluded.published_at), lake_at = coalesce(delivery.lake_at, excluded.lake_at)`,
    values: [
      column((entry) => entry.orderId),
      column((entry) => entry.version),
      column((entry) => entry.publishedAt),
      column((entry) => entry.lakeAt),
    ],
  })
}

async function writeStretch(pool: Pool, { first, last, at }: Stretch): Promise<void> {
  await pool.query('insert into lake_arrivals (first_sequence, last_sequence, at) values ($1, $2, $3) on conflict do nothing', [
    first,
    last,
    at,
  ])
}

interface DeliveryRow {
  version: number
  published_at: Date | null
  lake_at: Date | null
  status: 'queued' | 'sent' | 'failed' | null
  queued_at: Date
  sent_at: Date | null
  failed_at: Date | null
  attempts: number
}

/** How far each version of an order has come: to the topic, to its customer's mailbox, to the lake. */
export async function findDeliveries(pool: Pool, { id, version }: { id: string; version: number }): Promise<Map<number, Delivery>> {
  const { rows } = await pool.query<DeliveryRow>(
    `select version, published_at, lake_at, status, queued_at, sent_at, failed_at, attempts
    from (
      select version, min(published_at) as published_at, min(lake_at) as lake_at
      from (
        select version, published_at, lake_at from order_event_deliveries where order_id = $1
        union all
        select versions.version, message.published_at, arrival.at
        from generate_series(1, $2::integer) as versions (version)
        join topic_messages as message on message.id = $1::text || '.' || versions.version
        left join lateral (
          select first_sequence, at from lake_arrivals where last_sequence >= message.sequence order by last_sequence limit 1
        ) as arrival on arrival.first_sequence <= message.sequence
      ) as told
      group by version
    ) as delivery
    full join (
      select split_part(event_id, '.', 2)::integer as version, status, queued_at, sent_at, failed_at, attempts
      from email_deliveries
      where order_id = $1
    ) as mail using (version)`,
    [id, version],
  )
  return new Map(rows.map((row) => [row.version, toDelivery(row)]))
}

function toDelivery({ status, queued_at, sent_at, failed_at, attempts, published_at, lake_at }: DeliveryRow): Delivery {
  const mail = status === null ? null : { status, queuedAt: queued_at, sentAt: sent_at, failedAt: failed_at, attempts }
  return { publishedAt: published_at, mail, lakeAt: lake_at }
}

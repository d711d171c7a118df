import type { Logger } from 'pino'
import { plainArray } from '../db/list-parameters.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Delivery, MailState } from '../orders/timeline.ts'

/** An event stored on the topic. */
export interface PublishedEvent {
  /** `<order id>.<version>`. */
  eventId: string
  sequence: number
  /** When the event was stored. The default is the current time. */
  at?: Date
}

/** An inclusive range of sequences whose messages reached the lake together. */
interface SequenceRange {
  first: number
  last: number
  at: Date
}

/** A row of `order_event_deliveries`: order id, version, sequence, time. */
type Publication = readonly [string, string, number, string]

// Log entries beyond these limits are dropped, so a long database outage does not fill the memory.
const MAX_WAITING = 50_000
const MAX_WAITING_RANGES = 1_000
// Takes about 10 ms of this process's time.
const BATCH_SIZE = 8_000
const GAPS = 'the timeline of some orders has gaps: it could not be written'

/**
 * Records when events were published and when they reached the lake, for the timelines of orders. A topic in the same
 * database needs no records of publications, because its table has the times. Callers do not wait, and entries that
 * cannot be written are dropped, so nothing may depend on them.
 */
export class DeliveryLog {
  readonly #pool: Pool
  readonly #logger: Logger
  readonly #now: () => Date
  readonly #waiting: Publication[] = []
  #waitingRanges: SequenceRange[] = []
  #working: Promise<void> | null = null

  constructor({ pool, logger, now = () => new Date() }: { pool: Pool; logger: Logger; now?: () => Date }) {
    this.#pool = pool
    this.#logger = logger
    this.#now = now
  }

  async start(): Promise<void> {}

  /** Waits until all entries were written. Idempotent, safe before start. */
  async stop(): Promise<void> {
    await this.#working
  }

  /** Records events as published, for a topic outside the database. */
  readonly published = (events: readonly PublishedEvent[]): void => {
    const room = MAX_WAITING - this.#waiting.length
    if (room < events.length) this.#logger.warn({ events: events.length - room }, GAPS)
    const now = this.#now().toISOString()
    for (const { eventId, sequence, at } of events.slice(0, room)) {
      const [orderId = '', version = ''] = eventId.split('.')
      this.#waiting.push([orderId, version, sequence, at?.toISOString() ?? now])
    }
    this.#startWork()
  }

  /** Records that messages reached the lake, by their sequences in ascending order. */
  readonly inLake = (sequences: readonly number[]): void => {
    const at = this.#now()
    let unwritten = 0
    for (const sequence of sequences) {
      const last = this.#waitingRanges.at(-1)
      if (last?.at === at && sequence === last.last + 1) last.last = sequence
      else if (this.#waitingRanges.length < MAX_WAITING_RANGES) this.#waitingRanges.push({ first: sequence, last: sequence, at })
      else unwritten += 1
    }
    if (unwritten > 0) this.#logger.warn({ events: unwritten }, GAPS)
    this.#startWork()
  }

  #startWork(): void {
    this.#working ??= this.#work().finally(() => {
      this.#working = null
    })
  }

  async #work(): Promise<void> {
    while (this.#waiting.length + this.#waitingRanges.length > 0) {
      const rows = this.#waiting.splice(0, BATCH_SIZE)
      if (rows.length > 0) await this.#try({ events: rows.length }, () => writePublications(this.#pool, rows))
      const range = this.#waitingRanges.shift()
      if (range !== undefined) await this.#try({ range }, () => writeRange(this.#pool, range))
    }
  }

  async #try(what: object, write: () => Promise<unknown>): Promise<void> {
    try {
      await write()
    } catch (error) {
      this.#logger.warn({ err: error, ...what }, GAPS)
    }
  }
}

// A crash between publish and confirm makes the store publish the same events again.
async function writePublications(pool: Pool, waiting: readonly Publication[]): Promise<void> {
  // Sorted to prevent deadlocks, since the change stream and `storefront replay` may write the same rows.
  const rows = waiting.toSorted(([a, version], [b, other]) => (a < b ? -1 : a > b ? 1 : Number(version) - Number(other)))
  const column = (index: 0 | 1 | 2 | 3) => plainArray(rows.map((row) => row[index]))
  await pool.query(
    sql`insert into order_event_deliveries (order_id, version, sequence, published_at)
    select order_id, version, sequence, published_at
    from unnest(${column(0)}::uuid[], ${column(1)}::integer[], ${column(2)}::bigint[], ${column(3)}::timestamptz[])
      as publication (order_id, version, sequence, published_at)
    on conflict do nothing`,
  )
}

async function writeRange(pool: Pool, { first, last, at }: SequenceRange): Promise<void> {
  await pool.query('insert into lake_arrivals (first_sequence, last_sequence, at) values ($1, $2, $3) on conflict do nothing', [
    first,
    last,
    at,
  ])
}

/** `copy` is empty for the event's original mail. */
type DeliveryRow = Omit<Delivery, 'mail' | 'copies'> &
  Omit<MailState, 'status'> & { version: number; copy: string; status: MailState['status'] | null }

/**
 * The state of topic, mails and lake for each of these versions of an order, by version. After a restore or a promotion
 * of the database versions continue with far greater numbers.
 */
export async function findDeliveries(
  pool: Pool,
  { id, versions }: { id: string; versions: readonly number[] },
): Promise<Map<number, Delivery>> {
  const { rows } = await pool.query<DeliveryRow>(
    `select version, copy, published_at as "publishedAt", lake_at as "lakeAt", status, queued_at as "queuedAt", sent_at as "sentAt",
      failed_at as "failedAt", bounced_at as "bouncedAt", complained_at as "complainedAt", attempts
    from (
      select message.version, min(message.published_at) as published_at, min(arrival.at) as lake_at
      from (
        select version, sequence, published_at from order_event_deliveries where order_id = $1
        union all
        select versions.version, stored.sequence, stored.published_at
        from unnest($2::integer[]) as versions (version)
        join topic_messages as stored on stored.id = $1::text || '.' || versions.version
      ) as message
      left join lateral (
        select first_sequence, at from lake_arrivals where last_sequence >= message.sequence order by last_sequence limit 1
      ) as arrival on arrival.first_sequence <= message.sequence
      group by message.version
    ) as delivery
    full join (
      select split_part(event_id, '.', 2)::integer as version, split_part(event_id, '.', 3) as copy, status, queued_at, sent_at, failed_at, bounced_at,
        complained_at, attempts
      from email_deliveries
      where order_id = $1 and event_type <> 'storefront.order.readdressed'
    ) as mail using (version)
    order by version, copy`,
    [id, versions],
  )
  const deliveries = new Map<number, Delivery>()
  for (const { version, copy, publishedAt, lakeAt, status, ...mail } of rows) {
    const sent = status === null ? null : { status, ...mail }
    const known = deliveries.get(version)
    if (known === undefined) deliveries.set(version, { publishedAt, lakeAt, mail: copy ? null : sent, copies: copy && sent ? [sent] : [] })
    else if (sent !== null) known.copies.push(sent)
  }
  return deliveries
}

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { connectClient, type Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { epochOf, type Topic } from '../topic/topic.ts'
import { publishProductEvents } from './publish-product-events.ts'
import { recreateBrokenSlot } from './recreate-slot.ts'
import { findBrokenReason, findForeignReason } from './replication-slot.ts'

const WAIT_MS = 500

export interface CatalogueRefillOptions {
  /** Address of the database for the role that may replicate. */
  url: string
  pool: Queryable
  slotName: string
  topic: Topic<CatalogueEvent>
  logger: Logger
}

/**
 * Creates the slot of the catalogue, also one that was lost, and publishes from `product_events` what no slot delivers: unlike orders, the
 * table has every event as it was. A row of `slot_refills` exists until all of them are on the topic, so a process that dies leaves the rest
 * to the next.
 */
export class CatalogueRefill {
  readonly #options: CatalogueRefillOptions
  /** The epoch of the topic that has what no slot delivers. */
  #completeEpoch: number | null = null

  constructor(options: CatalogueRefillOptions) {
    this.#options = options
  }

  /** Returns when the slot exists and the topic has what it missed. Throws when the name belongs to another database's slot. */
  async ensureSlot(signal: AbortSignal): Promise<void> {
    const { url, pool, slotName } = this.#options
    const foreign = await findForeignReason(pool, slotName)
    if (foreign !== null) throw new Error(foreign)
    // Reading the position also opens a broker's stream, whose epoch is recorded when it is new.
    const hasMessages = (await this.#options.topic.newestPosition()) !== null
    const broken = await findBrokenReason(pool, slotName)
    const { rows } = await pool.query<{ is_created: boolean; is_refilling: boolean; is_new: boolean; has_events: boolean }>(
      sql`select
        exists (select from catalogue_epochs where refilled_at is null) as is_new,
        exists (select from pg_replication_slots where slot_name = ${slotName} and confirmed_flush_lsn is not null) as is_created,
        exists (select from slot_refills where slot_name = ${slotName}) as is_refilling,
        exists (select from product_events) as has_events`,
    )
    const [row] = rows
    const {
      is_created: isCreated = false,
      is_refilling: isRefilling = false,
      is_new: isNew = false,
      has_events: hasEvents = false,
    } = row ?? {}
    if (broken !== null || !isCreated) {
      await this.#begin(broken ?? `the replication slot ${slotName} is being created`)
      await recreateBrokenSlot(pool, url, slotName)
    } else if (!isRefilling) {
      // A broker's stream that is new or was lost, a database that was moved, or events from before the first slot.
      if (!isNew && (hasMessages || !hasEvents)) return
      await this.#begin(isNew ? 'the stream of the topic is new' : 'the topic has no event')
    }
    await this.#refill(signal)
  }

  /** Throws when the topic lacks what is no longer in the slot: then the next attempt to open it begins with a refill. */
  async assertComplete(): Promise<void> {
    const { pool, slotName, topic } = this.#options
    const epoch = epochOf(await topic.newestSequence())
    const { rows } = await pool.query(
      sql`select from slot_refills where slot_name = ${slotName} union all select from catalogue_epochs where refilled_at is null`,
    )
    if (rows.length > 0) throw new Error('the topic does not have every event of the catalogue yet')
    this.#completeEpoch = epoch
  }

  /** Throws when the broker's stream was recreated since: a change of a product would come before its earlier ones. */
  async assertSameEpoch(): Promise<void> {
    const { topic } = this.#options
    if (topic.isOutside && epochOf(await topic.newestSequence()) !== this.#completeEpoch)
      throw new Error('the stream of the catalogue was recreated, and gets its earlier events first')
  }

  async #begin(reason: string): Promise<void> {
    const { pool, slotName, logger } = this.#options
    logger.info({ slot: slotName, reason }, 'events of the catalogue are published from their table')
    await pool.query(
      sql`insert into slot_refills (slot_name, replay_id, reason) values (${slotName}, ${randomUUID()}, ${reason})
      on conflict (slot_name) do update set replay_id = excluded.replay_id`,
    )
  }

  /** One process publishes; the others wait until it has, or has died. */
  async #refill(signal: AbortSignal): Promise<void> {
    const { pool, slotName, topic, logger, url } = this.#options
    const client = await connectClient(url, 'storefront-catalogue-refill', signal)
    try {
      while (!signal.aborted) {
        const { rows } = await client.query<{ is_locked: boolean }>(
          sql`select pg_try_advisory_lock(hashtextextended(${`storefront refill ${slotName}`}, 0)) as is_locked`,
        )
        if (rows[0]?.is_locked === true) break
        await delay(WAIT_MS, undefined, { signal }).catch(() => {})
      }
      const { rows } = await pool.query<{ replay_id: string }>(sql`select replay_id from slot_refills where slot_name = ${slotName}`)
      // Another process has finished it meanwhile.
      if (rows[0] === undefined) return
      const epoch = epochOf(await topic.newestSequence())
      if (!(await publishProductEvents({ url, db: pool, topic, logger, signal }))) return
      await pool.query(sql`update catalogue_epochs set refilled_at = now() where refilled_at is null and epoch <= ${epoch}`)
      // A refill that was begun meanwhile may need what this one had passed.
      await pool.query(sql`delete from slot_refills where slot_name = ${slotName} and replay_id = ${rows[0].replay_id}`)
      logger.info({ slot: slotName }, 'the topic has every event of the catalogue')
    } finally {
      await client.end().catch(() => {})
    }
  }
}

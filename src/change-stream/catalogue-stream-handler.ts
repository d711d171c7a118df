import {
  type CatalogueEvent,
  catalogueEventId,
  PRODUCT_EVENT_COLUMNS,
  type ProductEventRecord,
  toCatalogueEvent,
} from '../catalogue/catalogue-event.ts'
import { findRecordDefect } from '../catalogue/catalogue-event-defects.ts'
import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { epochOf, type Topic } from '../topic/topic.ts'
import type { ChangeStream } from './change-stream.ts'
import { CATALOGUE_DEAD_LETTERS } from './dead-letters.ts'
import { publishProductEvents } from './publish-product-events.ts'
import { CATALOGUE_PUBLICATION } from './replication-slot.ts'
import type { StreamSource } from './slot-reader.ts'
import { createStreamHandler, type StreamHandlerOptions } from './stream-handler.ts'

const CATALOGUE_SOURCE: StreamSource<ProductEventRecord, never> = {
  publication: CATALOGUE_PUBLICATION,
  shape: { table: 'product_events', columns: PRODUCT_EVENT_COLUMNS, previousColumns: [] },
}

/** Takes 5 ms of this process, in which events of orders wait. A part of a large transaction is ten times as large. */
const PUBLISH_AT_MOST = 1_000

/**
 * Publishes catalogue events. Refills a lost slot, or a topic without events:
 * docs/decisions/change-stream-slots.md#refilling-a-lost-slot.
 */
export function createCatalogueStreamHandler(options: StreamHandlerOptions<CatalogueEvent>): ChangeStream<ProductEventRecord, never> {
  const { url, pool, topic, logger, beforePublishing } = options
  const epochs = new CatalogueEpochs(pool, topic)
  return createStreamHandler(options, {
    source: CATALOGUE_SOURCE,
    deadLetters: CATALOGUE_DEAD_LETTERS,
    subject: 'a product',
    publishAtMost: PUBLISH_AT_MOST,
    findDefect: findRecordDefect,
    eventIdOf: catalogueEventId,
    toMessages: async (commits) =>
      commits.flatMap(({ position, changes }) => changes.map(({ record }) => ({ position, event: toCatalogueEvent(record) }))),
    beforeEachPublish: () => epochs.assertSame(),
    publishStored: (signal) => epochs.fill(() => publishProductEvents({ url, db: pool, topic, logger, signal })),
    async findGap(signal) {
      // A restored database must have its incarnation before the broker's stream is opened.
      await beforePublishing?.(signal)
      return epochs.findGap()
    },
    onOpened: () => epochs.assertFilled(),
  })
}

/** A broker's stream gets all older events first. Until then `catalogue_epochs.refilled_at` is null. */
class CatalogueEpochs {
  readonly #db: Queryable
  readonly #topic: Topic<CatalogueEvent>
  #filled: number | null = null

  constructor(db: Queryable, topic: Topic<CatalogueEvent>) {
    this.#db = db
    this.#topic = topic
  }

  /** A reason is a new or lost broker's stream, a moved database, or events older than the slot. */
  async findGap(): Promise<string | null> {
    // Reading the position also opens the broker's stream, and records a new stream's epoch.
    const hasMessages = (await this.#topic.newestPosition()) !== null
    if (await this.#isUnfilled()) return 'the stream of the topic is new'
    if (hasMessages) return null
    const { rows } = await this.#db.query(sql`select from product_events limit 1`)
    return rows.length > 0 ? 'the topic has no event' : null
  }

  /** Records that the stream has every event, once `publish` has ended completely. */
  async fill(publish: () => Promise<boolean>): Promise<boolean> {
    const epoch = epochOf(await this.#topic.newestSequence())
    if (!(await publish())) return false
    await this.#db.query(sql`update catalogue_epochs set refilled_at = now() where refilled_at is null and epoch <= ${epoch}`)
    return true
  }

  /** Throws if the topic lacks events that the slot no longer has. The next attempt then begins with a refill. */
  async assertFilled(): Promise<void> {
    const epoch = epochOf(await this.#topic.newestSequence())
    if (await this.#isUnfilled()) throw new Error('the topic does not have every event of the catalogue yet')
    this.#filled = epoch
  }

  /** Throws if the broker's stream was recreated, because a product's change would come before its earlier ones. */
  async assertSame(): Promise<void> {
    if (this.#topic.isOutside && epochOf(await this.#topic.newestSequence()) !== this.#filled)
      throw new Error('the stream of the catalogue was recreated, and gets its earlier events first')
  }

  async #isUnfilled(): Promise<boolean> {
    const { rows } = await this.#db.query(sql`select from catalogue_epochs where refilled_at is null limit 1`)
    return rows.length > 0
  }
}

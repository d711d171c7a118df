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

/** Takes 5 ms of this process, in which orders' events wait. A part of a large transaction has ten times as many. */
const PUBLISH_AT_MOST = 1_000

/**
 * Reads the events of the catalogue from a slot of its own and publishes them to a partition of its own. A lost slot is refilled from
 * `product_events`, and so is a topic without events: see docs/decisions/change-stream-slots.md#refilling-a-lost-slot.
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
      // A restored database must have its incarnation before a broker's stream is opened.
      await beforePublishing?.(signal)
      return epochs.findGap()
    },
    onOpened: () => epochs.assertFilled(),
  })
}

/** Each stream of a broker gets every event of the catalogue before its newer ones: `catalogue_epochs.refilled_at` is null until then. */
class CatalogueEpochs {
  readonly #db: Queryable
  readonly #topic: Topic<CatalogueEvent>
  /** The epoch of the topic that has what no slot delivers. */
  #filled: number | null = null

  constructor(db: Queryable, topic: Topic<CatalogueEvent>) {
    this.#db = db
    this.#topic = topic
  }

  /** Why the topic needs the events of the table: a broker's stream that is new or was lost, a moved database, events from before the first slot. */
  async findGap(): Promise<string | null> {
    // Reading the position also opens a broker's stream, whose epoch is recorded when it is new.
    const hasMessages = (await this.#topic.newestPosition()) !== null
    if (await this.#isUnfilled()) return 'the stream of the topic is new'
    if (hasMessages) return null
    const { rows } = await this.#db.query(sql`select from product_events limit 1`)
    return rows.length > 0 ? 'the topic has no event' : null
  }

  /** Records that the present stream has every event when `publish` comes to its end. */
  async fill(publish: () => Promise<boolean>): Promise<boolean> {
    const epoch = epochOf(await this.#topic.newestSequence())
    if (!(await publish())) return false
    await this.#db.query(sql`update catalogue_epochs set refilled_at = now() where refilled_at is null and epoch <= ${epoch}`)
    return true
  }

  /** Throws when the topic lacks what is no longer in the slot: then the next attempt to open it begins with a refill. */
  async assertFilled(): Promise<void> {
    const epoch = epochOf(await this.#topic.newestSequence())
    if (await this.#isUnfilled()) throw new Error('the topic does not have every event of the catalogue yet')
    this.#filled = epoch
  }

  /** Throws when the broker's stream was recreated since: a change of a product would come before its earlier ones. */
  async assertSame(): Promise<void> {
    if (this.#topic.isOutside && epochOf(await this.#topic.newestSequence()) !== this.#filled)
      throw new Error('the stream of the catalogue was recreated, and gets its earlier events first')
  }

  async #isUnfilled(): Promise<boolean> {
    const { rows } = await this.#db.query(sql`select from catalogue_epochs where refilled_at is null limit 1`)
    return rows.length > 0
  }
}

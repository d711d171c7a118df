import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { epochOf, type Topic } from '../topic/topic.ts'

/** Each stream of a broker gets every event of the catalogue before its newer ones: `catalogue_epochs.refilled_at` is null until then. */
export class CatalogueEpochs {
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

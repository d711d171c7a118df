import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { copyRows } from '../../db/copy-rows.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { literal, type Sql, sql } from '../../db/sql.ts'
import type { Topic } from '../../topic/topic.ts'
import { MAX_EXAMPLES, type Sample } from './finding.ts'

const BATCH_SIZE = 1_000

/** The id of the event in a row of the alias `event`. */
export const EVENT_ID = sql`event.product_id || case event.stream when 'stock' then '.stock.' else '.' end || event.version`

/**
 * Ids of the catalogue's events in temporary tables of one session, so that a million of them take no memory of this process: `published`,
 * what the topic has, and whether the change stream has published it, which a broker does not say; `missing`, what the topic lacks of the
 * events that were there at the beginning; `held`, what the slot has.
 */
export class CatalogueTables {
  readonly #session: Transaction
  readonly #topic: Topic<CatalogueEvent>
  #last = 0

  private constructor(session: Transaction, topic: Topic<CatalogueEvent>) {
    this.#session = session
    this.#topic = topic
  }

  /** Runs `work` with tables of the present state. */
  static async with<T>(pool: Pool, topic: Topic<CatalogueEvent>, work: (tables: CatalogueTables) => Promise<T>): Promise<T> {
    const session = await pool.connect()
    try {
      await session.query(
        `create temporary table published (id text not null, sequence bigint not null, is_in_turn boolean not null);
        create temporary table missing (product_id uuid not null, stream text not null, version bigint not null, id text not null);
        create temporary table held (id text not null)`,
      )
      const tables = new CatalogueTables(session, topic)
      await tables.#readOn()
      await session.query('analyze published')
      await session.query(
        sql`insert into missing (product_id, stream, version, id)
        select event.product_id, event.stream, event.version, ${EVENT_ID}
        from product_events as event
        where not exists (select from published where published.id = ${EVENT_ID})`,
      )
      return await work(tables)
    } finally {
      // Closed, which drops the tables.
      session.release(true)
    }
  }

  /** Removes from `missing` what the topic has got since, and what is recorded no more. */
  async update(): Promise<void> {
    const after = this.#last
    await this.#readOn()
    await this.#session.query(sql`delete from missing using published where published.sequence > ${after} and published.id = missing.id`)
    await this.#session.query(
      sql`delete from missing
      where not exists (
        select from product_events as event
        where event.product_id = missing.product_id and event.stream = missing.stream and event.version = missing.version
      )`,
    )
  }

  async #readOn(): Promise<void> {
    if (!this.#topic.isOutside) {
      await this.#session.query(
        sql`insert into published (id, sequence, is_in_turn)
        select id, sequence, position <> '' from catalogue_messages where sequence > ${this.#last}`,
      )
      this.#last = await this.count(sql`select coalesce(max(sequence), 0) as count from published`)
      return
    }
    for (;;) {
      const messages = await this.#topic.read(this.#last, BATCH_SIZE)
      const last = messages.at(-1)
      if (last === undefined) return
      const rows = messages.map(({ sequence, event }): [string, number, string] => {
        const { id } = (event ?? {}) as { id?: unknown }
        // PostgreSQL's text has no null character.
        return [typeof id === 'string' ? id.replaceAll('\0', '') : '', sequence, 'false']
      })
      await copyRows(this.#session, 'copy published (id, sequence, is_in_turn) from stdin', rows)
      this.#last = last.sequence
    }
  }

  async addHeld(ids: readonly string[]): Promise<void> {
    await copyRows(
      this.#session,
      'copy held (id) from stdin',
      ids.map((id) => [id]),
    )
  }

  async run(statement: Sql): Promise<void> {
    await this.#session.query(statement)
  }

  /** The `count` of a statement. */
  async count(statement: Sql): Promise<number> {
    const { rows } = await this.#session.query<{ count: number }>(statement)
    return rows[0]?.count ?? 0
  }

  countMissing(): Promise<number> {
    return this.count(sql`select count(*) as count from missing`)
  }

  /** The number of rows of a statement that selects texts as `example`, and the first of them. */
  async sample(statement: Sql): Promise<Sample> {
    const { rows } = await this.#session.query<{ example: string; count: number }>(
      sql`select example, count(*) over () as count from (${statement}) as found order by example limit ${literal(MAX_EXAMPLES)}`,
    )
    return { count: rows[0]?.count ?? 0, examples: rows.map(({ example }) => example) }
  }

  /** The messages of the topic that have no row in `product_events`, and are no events: not those whose row is gone because it was old. */
  async sampleCorrupt(): Promise<Sample> {
    const corrupt: Sample = { count: 0, examples: [] }
    const unknown = sql`published where not exists (select from product_events as event where ${EVENT_ID} = published.id)`
    await this.run(sql`create temporary table unknown as select published.sequence from ${unknown}`)
    await this.run(sql`create index on unknown (sequence)`)
    for (let after = 0; ; ) {
      const next = await this.count(sql`select coalesce(min(sequence), 0) as count from unknown where sequence > ${after}`)
      if (next === 0) return corrupt
      const messages = await this.#topic.read(next - 1, BATCH_SIZE)
      after = messages.at(-1)?.sequence ?? next
      const { rows } = await this.#session.query<{ sequence: number }>(
        sql`select sequence from unknown where sequence between ${next} and ${after}`,
      )
      const wanted = new Set(rows.map(({ sequence }) => sequence))
      for (const { sequence, event } of messages) {
        const reason = wanted.has(sequence) ? this.#topic.partition.findDefect(event) : null
        if (reason === null) continue
        corrupt.count += 1
        if (corrupt.examples.length < MAX_EXAMPLES) corrupt.examples.push(`sequence ${sequence}: ${reason}`)
      }
    }
  }
}

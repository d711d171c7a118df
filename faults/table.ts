import { join } from 'node:path'
import { openLake } from '../src/app/open-lake.ts'
import { readConfig } from '../src/config.ts'
import { expireSnapshots } from '../src/lake/iceberg/expire-snapshots.ts'
import { EVENT_TABLES } from '../src/lake/iceberg/lake-table.ts'
import { writeDerivedTables } from '../src/lake/iceberg/write-derived-tables.ts'
import { queryLake } from '../src/lake/lake-query.ts'
import { CATALOGUE_KEYS, type CatalogueTable, catalogueOf } from '../test/catalogue-tables.ts'
import { eventually } from '../test/eventually.ts'
import { readWithIcebird, watchEvents } from '../test/iceberg-reader.ts'
import { farFromMidnight } from '../test/midnight.ts'
import { changeProducts } from './catalogue.ts'
import type { Fault } from './fault.ts'
import { DRAIN_TIMEOUT_MS, type Round } from './round.ts'

const WRITER_STEPS = ['before link', 'after link', 'before metadata', 'after metadata']
const MERGE_STEPS = ['before link', 'before metadata', 'after metadata', 'before data']

/** The part of a step's name that means orders or the catalogue. */
const datasetOf = (round: Round) => (round.random() < 0.5 ? '' : 'catalogue ')

/** kill -9 of processes that write the Iceberg tables. */
export const TABLE_FAULTS: Fault[] = [
  {
    name: 'lake-table',
    title: 'kill -9 of the lake writer and of lake maintain, four times each, around the steps of a commit of the Iceberg tables',
    async run(round, orders) {
      await round.survive('stream,email')
      await farFromMidnight()
      for (const [index, step] of WRITER_STEPS.entries()) {
        const dying = await round.start('lake', { FAULT: `${datasetOf(round)}${step}` })
        // The second merge merges the first one's result.
        await tradeAndChange(round, Math.ceil(orders / 10))
        await dying.ended
        const writer = await round.start('lake')
        await fillForMerge(round, Math.ceil(orders / 10))
        const merge = round.compact({ FAULT: `${datasetOf(round)}${MERGE_STEPS[index]}` })
        await Promise.all([merge.ended, tradeAndChange(round, 1)])
        if (merge.child.signalCode !== 'SIGKILL') throw new Error(`the merge was over before it died ${MERGE_STEPS[index]}`)
        await writer.kill()
      }
      await round.start('lake')
      await untilStored(round)
      await round.compact().ended
      await assertTablesComplete(round)
    },
  },
  {
    name: 'lake-table-reader',
    title: 'a reader of the Iceberg tables of events beside three kill -9 of the lake writer, merges and expiries',
    async run(round, orders) {
      await round.survive('stream,email')
      await farFromMidnight()
      const store = await openLake(readConfig(round.environment('lake')))
      const names = EVENT_TABLES.map(({ name }) => name)
      const stopReading = watchEvents(round.cleanup, { store, pathOf: (name) => store.locate(name) }, names)
      try {
        for (const step of ['before link', 'before metadata', 'after metadata']) {
          const dying = await round.start('lake', { FAULT: `${datasetOf(round)}${step}` })
          await tradeAndChange(round, Math.ceil(orders / 6))
          await dying.ended
          const writer = await round.start('lake')
          await fillForMerge(round, Math.ceil(orders / 6))
          await Promise.all([round.compact().ended, tradeAndChange(round, 1)])
          for (const table of EVENT_TABLES)
            await expireSnapshots(store, table, new Date(Date.now() - 1_000), new Date(Date.now() + 3_700_000))
          await writer.kill()
        }
        if ((await stopReading()) < 6) throw new Error('the reader has hardly read')
      } finally {
        store.close()
      }
      await round.start('lake')
      await untilStored(round)
      await assertTablesComplete(round)
    },
  },
]

/** Places this number of orders, and changes as many products. */
export async function tradeAndChange(round: Round, count: number): Promise<void> {
  await Promise.all([round.shop.trade(count), changeProducts(round, count)])
}

/** Makes at least two files of orders and of the catalogue, which a merge needs. */
export async function fillForMerge(round: Round, count: number): Promise<void> {
  for (const part of [count, 1]) {
    await tradeAndChange(round, part)
    await untilStored(round)
  }
}

/** Waits until the lake has every change of orders and products. */
export async function untilStored(round: Round): Promise<void> {
  await round.drain()
  const store = await openLake(readConfig(round.environment('lake')))
  try {
    await eventually(
      async () => {
        const { rows } = await round.pool.query<{ events: number }>('select count(*)::integer as events from product_events')
        const stored = await queryLake(store, 'select count(distinct event_id) from catalogue_events')
        return Number(stored.rows[0]?.[0]) >= (rows[0]?.events ?? 0)
      },
      { what: 'the changes of products in the lake', timeoutMs: DRAIN_TIMEOUT_MS },
    )
  } finally {
    store.close()
  }
}

/** Compares the tables, read by an independent reader, with PostgreSQL. */
export async function assertTablesComplete(round: Round): Promise<void> {
  const store = await openLake(readConfig(round.environment('lake')))
  try {
    await writeDerivedTables(store)
    const lake = { store, pathOf: (name: string) => join(round.lake, name) }
    const events = (await readWithIcebird(lake, 'order_events')).map(({ event_id }) => String(event_id))
    const { rows } = await round.pool.query('select id, version, status, json_array_length(items) as lines from orders')
    const wanted = rows.reduce((sum, { version }) => sum + version, 0)
    const found = new Set(events)
    if (found.size !== events.length || found.size !== wanted)
      throw new Error(`the table has ${events.length} rows of ${found.size} events; orders have ${wanted}`)
    const orders = (await readWithIcebird(lake, 'orders')).map(({ order_id, version, status }) => [order_id, version, status].join())
    const expected = rows.map(({ id, version, status }) => [id, version, status].join())
    if (orders.toSorted().join(' ') !== expected.toSorted().join(' ')) throw new Error('the table orders differs from PostgreSQL')
    const lines = rows.reduce((sum, row) => sum + row.lines, 0)
    if ((await readWithIcebird(lake, 'order_lines')).length !== lines) throw new Error(`the table order_lines has not ${lines} rows`)
    for (const [name, rows] of Object.entries(await catalogueOf(round.pool))) {
      const read = (await readWithIcebird(lake, name)).map(CATALOGUE_KEYS[name as CatalogueTable]).toSorted()
      if (rows.length === 0 || read.join(' ') !== rows.toSorted().join(' '))
        throw new Error(`the table ${name} has ${read.length} rows and not the ${rows.length} of PostgreSQL`)
    }
  } finally {
    store.close()
  }
}

import { openLake } from '../src/app/open-lake.ts'
import { readConfig } from '../src/config.ts'
import { commitOrderEvents } from '../src/lake/iceberg/commit-order-events.ts'
import { writeDerivedTables } from '../src/lake/iceberg/write-derived-tables.ts'
import { readWithIcebird } from '../test/iceberg-reader.ts'
import { farFromMidnight } from '../test/midnight.ts'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

const WRITER_STEPS = ['before data', 'after data', 'before metadata', 'after metadata', 'after link']
const MERGE_STEPS = ['before link', 'before metadata', 'after metadata', 'before delete', 'after delete']
const TABLE = { LAKE_TABLE_SECONDS: '1' }

/** kill -9 of those who write the Iceberg table. */
export const TABLE_FAULTS: Fault[] = [
  {
    name: 'lake-table',
    title: 'kill -9 of the lake writer and of lake compact, five times each, around the steps of a commit of the Iceberg table',
    async run(round, orders) {
      await round.survive('stream,email')
      await farFromMidnight()
      for (const [index, step] of WRITER_STEPS.entries()) {
        const dying = await round.start('lake', { ...TABLE, FAULT: step })
        // The second merges what the first wrote.
        await round.shop.trade(Math.ceil(orders / 10))
        await dying.ended
        const writer = await round.start('lake', TABLE)
        await round.shop.trade(Math.ceil(orders / 10))
        await round.drain()
        const merge = round.compact({ ...TABLE, FAULT: MERGE_STEPS[index] ?? '' })
        await Promise.all([merge.ended, round.shop.trade(1)])
        if (merge.child.signalCode !== 'SIGKILL') throw new Error(`the merge was over before it died ${MERGE_STEPS[index]}`)
        await writer.kill()
      }
      await round.start('lake')
      await round.drain()
      await round.compact(TABLE).ended
      await assertTablesComplete(round)
    },
  },
]

/** Compares the tables, as an independent reader has them, with `orders` in PostgreSQL. */
async function assertTablesComplete(round: Round): Promise<void> {
  const store = await openLake(readConfig(round.environment('lake')))
  try {
    await commitOrderEvents(store)
    await writeDerivedTables(store)
    const lake = { store, pathOf: (name: string) => store.locate(name) }
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
  } finally {
    store.close()
  }
}

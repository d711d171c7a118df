import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DERIVED_TABLES } from '../src/lake/iceberg/lake-table.ts'
import { queryLake } from '../src/lake/lake-query.ts'
import { LAKE_TABLES } from '../src/lake/lake-tables.ts'
import { writeCatalogue } from './catalogue-lake.ts'
import type { Cleanup } from './cleanup.ts'
import { selectPlain } from './dbt-models.ts'
import { writeFiles } from './lake-harness.ts'
import { makeLocalLake, type TestLake } from './lake-stores.ts'
import { openPlainFiles } from './plain-files.ts'

/**
 * What a reader of plain files and `storefront lake query` have in common: the columns in their order, and the rows.
 */
async function assertSame(t: Cleanup, lake: TestLake): Promise<Record<string, number>> {
  const connection = await openPlainFiles(t, lake.pathOf(''))
  const counts: Record<string, number> = {}
  for (const { name, columns } of LAKE_TABLES) {
    const described = await selectPlain(connection, `select column_name, column_type from (describe storefront.${name})`)
    const text = (pairs: unknown[][]) =>
      pairs.map((pair) => pair.join(' ').replaceAll('"', '').replace('TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ'))
    assert.deepEqual(text(described), text(columns.map((column) => [column.name, column.type])), name)
    const rows = `select to_json(each)::varchar from (select ${columns.map((column) => column.name)} from SCHEMA${name}) as each order by all`
    const plain = await selectPlain(connection, rows.replace('SCHEMA', 'storefront.'))
    assert.deepEqual(plain, (await queryLake(lake.store, rows.replace('SCHEMA', ''))).rows, name)
    counts[name] = plain.length
  }
  const [[lines] = []] = await selectPlain(connection, 'select count(*) from storefront.order_lines')
  counts.order_lines = Number(lines)
  const tables = await selectPlain(
    connection,
    `select table_name from information_schema.tables where table_schema = 'storefront' order by all`,
  )
  const wanted = ['order_events', 'catalogue_events', ...DERIVED_TABLES.map(({ name }) => name)]
  assert.deepEqual(tables.flat(), wanted.toSorted(), 'every table of the lake')
  return counts
}

const OF_ORDERS = { adjustments: 0, payments: 0, refunds: 0, parcels: 0, customers: 0 }
const NOTHING = { ...OF_ORDERS, order_events: 0, orders: 0, order_lines: 0, catalogue_events: 0, products: 0, prices: 0, stock_events: 0 }

test('plain files have the same tables as a query of the lake, also of one without orders, or without a catalogue', async (t) => {
  const both = await makeLocalLake(t)
  await writeCatalogue(t, both.store)
  const catalogue = { catalogue_events: 9, products: 6, prices: 8, stock_events: 1 }
  assert.deepEqual(await assertSame(t, both), { ...NOTHING, ...catalogue })
  await writeFiles(t, both.store, [2, 1])
  const orders = { ...OF_ORDERS, order_events: 3, orders: 3, order_lines: 3, customers: 3 }
  assert.deepEqual(await assertSame(t, both), { ...orders, ...catalogue })
  const early = await makeLocalLake(t)
  assert.deepEqual(await assertSame(t, early), NOTHING)
  await writeFiles(t, early.store, [2, 1])
  assert.deepEqual(await assertSame(t, early), { ...NOTHING, ...orders })
})

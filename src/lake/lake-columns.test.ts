import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listFiles, makeLakeDirectory, NEVER, queryFolder, startSink } from '../../test/lake-harness.ts'
import { writeOldFile } from '../../test/old-lake-file.ts'
import { makeMessages, makeOrderEvent, makeOrderItem } from '../../test/order-event-factory.ts'
import { withComparisonTables } from '../audit/verify/comparison-tables.ts'
import { readLake } from '../audit/verify/read-lake.ts'
import { sql } from '../db/sql.ts'
import type { StatusChange } from '../orders/order.ts'
import type { TopicMessage } from '../topic/topic.ts'
import { compactLake } from './compact-lake.ts'
import { LocalLakeStore } from './local-store.ts'

const change = (status: StatusChange['status'], type: 'customer' | 'admin' | 'system', reason: string | null): StatusChange => ({
  status,
  at: '2026-03-01T10:00:00.000Z',
  actor: { type, id: 'the id of who did it' },
  reason,
})

test('has the exponent of the currency, category, country, client reference, and who cancelled the order and why', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  const priced = (currency: string, amount: number) => ({ total: { amount, currency } })
  const cancelled = makeOrderEvent({
    order: {
      ...priced('KWD', 12_345),
      number: '3',
      status: 'cancelled',
      version: 2,
      status_history: [change('pending', 'customer', null), change('cancelled', 'admin', 'out of paper \ud83e')],
    },
    type: 'storefront.order.cancelled',
    previous_status: 'pending',
  })
  const items = [makeOrderItem({ category: 'kitchen' }), makeOrderItem({ category: 'garden \ud83e' }), makeOrderItem()]
  const plain = makeOrderEvent({ order: { ...priced('JPY', 1_200), number: '1', items, client_reference: null, shipping_address: null } })
  const euros = makeOrderEvent({ order: { ...priced('EUR', 2_500), number: '2', status_history: [change('pending', 'system', 'odd')] } })
  const events = [plain, euros, cancelled]
  await sink.handle(
    events.map((event, index) => ({ sequence: index + 1, event })),
    NEVER,
  )
  await sink.flush()
  const { rows } = await queryFolder(
    directory,
    `select currency, currency_exponent, client_reference, shipping_country, actor_type, reason, list_transform(items, lambda item: item.category)
    from order_events order by order_number`,
  )
  assert.deepEqual(rows, [
    ['JPY', 0, null, null, 'customer', null, '["kitchen","garden \ufffd",null]'],
    ['EUR', 2, 'reference-of-the-customer', 'GB', 'system', 'odd', '[null]'],
    ['KWD', 3, 'reference-of-the-customer', 'GB', 'admin', 'out of paper \ufffd', '[null]'],
  ])
  const orders = await queryFolder(
    directory,
    'select order_number, client_reference, shipping_country, cancelled_by, cancel_reason from orders order by 1',
  )
  assert.deepEqual(orders.rows, [
    ['1', null, null, null, null],
    ['2', 'reference-of-the-customer', 'GB', null, null],
    ['3', 'reference-of-the-customer', 'GB', 'admin', 'out of paper \ufffd'],
  ])
})

test('accepts events in which another program has written members that the store itself does not check', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  const event = makeOrderEvent()
  const foreign = {
    client_reference: 7,
    shipping_address: 'here',
    status_history: [{ status: 'pending', at: event.time, reason: { a: 1 } }],
  }
  Object.assign(event.data.order, foreign, { items: [{ ...makeOrderItem(), category: ['a'] }] })
  await sink.handle([{ sequence: 1, event }], NEVER)
  await sink.flush()
  const columns = 'client_reference, shipping_country, actor_type, reason, items[1].category'
  const { rows } = await queryFolder(directory, `select ${columns} from order_events`)
  assert.deepEqual(rows, [[null, null, null, null, null]])
})

test('files of a release without these columns are queried, verified and merged together with current files', async (t) => {
  const directory = makeLakeDirectory(t)
  const store = new LocalLakeStore(directory)
  const messages = makeMessages(6)
  for (const [index, currency] of ['EUR', 'JPY', 'KWD'].entries()) {
    const order = messages[index]?.event.data.order
    if (order !== undefined) order.total = { amount: 1_000, currency }
  }
  await writeOldFile(directory, messages.slice(0, 2))
  await writeOldFile(directory, messages.slice(2, 3))
  const exponents = async () =>
    (await queryFolder(directory, 'select sequence, currency_exponent, shipping_country, items[1].category from order_events order by 1'))
      .rows
  const old = [
    ['1', 2, null, null],
    ['2', 0, null, null],
    ['3', 3, null, null],
  ]
  const sink = await startSink(t, directory)
  assert.equal(await sink.lastSequence(), 3)
  assert.deepEqual(await exponents(), old, 'the old files alone')
  const described = () => queryFolder(directory, 'select column_name, column_type from (describe select * from order_events) order by 1')
  const types = await described()

  const item = makeOrderItem({ category: 'kitchen' })
  for (const { event } of messages.slice(3)) event.data.order.items = [item]
  // The first comes again, as after a replay: it is found in a file without the columns.
  await sink.handle([...messages.slice(3), { ...(messages[0] as TopicMessage), sequence: 7 }], NEVER)
  await sink.flush()
  const all = [...old, ...[4, 5, 6].map((sequence) => [String(sequence), 2, 'GB', 'kitchen'])]
  assert.deepEqual(await exponents(), all, 'old and new files')
  assert.deepEqual(await described(), types)

  const verified = () =>
    withComparisonTables(async (tables) => {
      const { files, ...found } = await readLake(store, 'orders', tables)
      return { ...found, files: files.length, rows: await tables.count(sql`from lake_events`) }
    })
  const valid = { lastSequence: 7, corrupt: [], rows: 6 }
  assert.deepEqual(await verified(), { ...valid, files: 3 })
  const report = await compactLake({ store, isWanted: () => true })
  assert.deepEqual(report, { merged: 1, failures: [] })
  assert.equal((await listFiles(directory)).length, 1)
  assert.deepEqual(await exponents(), all, 'the merged file')
  assert.deepEqual(await verified(), { ...valid, files: 1 })
})

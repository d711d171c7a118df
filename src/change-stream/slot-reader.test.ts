import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { insertOrders, makeStreamDatabase, startStream } from '../../test/stream-harness.ts'

const LINES_OF_A_LARGE_ORDER = 1_000
const LARGE_ORDERS = 200

test('reads only a few megabytes of large orders ahead while earlier ones are being stored', async (t) => {
  const db = await makeStreamDatabase(t)
  const batches: number[] = []
  const stored = Promise.withResolvers<void>()
  await startStream(t, db, async (commits) => {
    batches.push(commits.reduce((bytes, { changes }) => bytes + JSON.stringify(changes).length, 0))
    if (batches.length === 1) await stored.promise
  })
  await insertOrders(db.pool, 1)
  await eventually(async () => batches.length === 1, { what: 'the first batch' })
  for (let order = 0; order < LARGE_ORDERS; order++) await insertOrders(db.pool, 1, LINES_OF_A_LARGE_ORDER)
  stored.resolve()
  const all = () => batches.reduce((bytes, batch) => bytes + batch, 0)
  await eventually(async () => all() > LARGE_ORDERS * LINES_OF_A_LARGE_ORDER * 150, { what: 'all orders' })
  const [, ...large] = batches
  assert.ok(Math.max(...large) < 24 * 1024 * 1024, `batches of ${large.map((bytes) => Math.round(bytes / 1024 / 1024))} MB`)
})

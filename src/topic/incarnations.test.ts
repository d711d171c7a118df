import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { readIdentity } from '../db/database-id.ts'
import { createPool } from '../db/pool.ts'
import { listIncarnations, openIncarnation } from './incarnations.ts'
import { EPOCH_SEQUENCES } from './topic.ts'

const opening = {
  expected: 0,
  reason: 'a test',
  publishedOrderNumber: 0,
  firstSequence: 0,
  lost: null,
  isReconciled: true,
}

test("of several processes, one opens the next incarnation with the API's role, and numbers only increase", async (t) => {
  const { addresses, pool } = await createTestDatabase(t)
  const api = createPool({ url: addresses.api, size: 4, applicationName: 'test', onError: () => {} })
  t.after(() => api.end())
  // The first connection has begun the first one.
  const identity = await readIdentity(api)
  const next = { ...opening, identity, publishedOrderNumber: 250_000, firstSequence: EPOCH_SEQUENCES + 1, lost: { after: 7, upTo: 9 } }
  const opened = await Promise.all(Array.from({ length: 4 }, () => openIncarnation(api, { ...next, isReconciled: false })))
  assert.deepEqual(opened.toSorted(), [false, false, false, true])
  const [, second] = await listIncarnations(api)
  assert.deepEqual(second?.lost, { after: 7, upTo: 9 })
  assert.ok(second.number > 0)
  // An opening with lower numbers decreases nothing.
  assert.equal(await openIncarnation(api, { ...opening, identity, expected: second.number }), true)
  const [, , third] = await listIncarnations(api)
  assert.ok((third?.number ?? 0) > second.number)
  const { rows: ends } = await pool.query<{ end: number }>('select order_number::integer as end from database_incarnations order by number')
  const [, secondEnd = 0, thirdEnd = 0] = ends.map(({ end }) => end)
  // The incarnation's number is the seconds since 2026, so another restore of the same backup gets other numbers.
  assert.equal(secondEnd, 250_000 + 10_000 + 100 * (second.number % 100_000))
  assert.ok(thirdEnd >= secondEnd + 10_000 && (thirdEnd - secondEnd) % 100 === 0)
  const { rows } = await pool.query(
    `select nextval('order_numbers')::integer as number, nextval('topic_messages_sequence_seq')::bigint as sequence, newest_topic_sequence() as newest`,
  )
  assert.deepEqual(rows, [{ number: thirdEnd + 1, sequence: EPOCH_SEQUENCES + 1, newest: EPOCH_SEQUENCES + 1 }])
  await assert.rejects(api.query(`select setval('order_numbers', 1)`), /permission denied/)
})

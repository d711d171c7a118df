import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PARCELS, setUp } from '../../test/delivery-harness.ts'
import { EMPTY_QUEUE, NO_RECEIVER, readQueueLength } from './delivery-kind.ts'

test('the age of a queue ignores deliveries to a failing receiver', async (t) => {
  const { db } = await setUp(t)
  const insert = (receiver: string, attempts: number, minutes: number) =>
    db.pool.query(
      `insert into parcels (parcel_id, label, receiver, attempts, last_error, due_at)
      values (gen_random_uuid(), '', $1, $2, case when $2 > 0 then 'refused' end, now() - make_interval(mins => $3))`,
      [receiver, attempts, minutes],
    )
  const read = async () => {
    const { queued, oldestUntriedSeconds } = await readQueueLength(db.pool, PARCELS)
    return { queued, minutes: Math.round(oldestUntriedSeconds / 60) }
  }
  assert.deepEqual(await readQueueLength(db.pool, PARCELS), EMPTY_QUEUE)
  await insert('failing', 1, -1)
  await insert('failing', 0, 50)
  assert.deepEqual(await read(), { queued: 2, minutes: 0 })
  await insert('well', 0, 10)
  assert.deepEqual(await read(), { queued: 3, minutes: 10 })
  // These deliveries share no receiver, so no receiver can be failing.
  await insert(NO_RECEIVER, 1, -1)
  await insert(NO_RECEIVER, 0, 20)
  assert.deepEqual(await read(), { queued: 5, minutes: 20 })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { TEST_SECRET } from '../../test/store.ts'
import { insertOrders, silent } from '../../test/stream-harness.ts'
import { findLostReason } from '../change-stream/replication-slot.ts'
import { connectClient } from '../db/pool.ts'
import { moveDatabase } from './move-database.ts'
import { catalogueSlotOf, orderSlotOf, prepareDatabase } from './prepare-database.ts'

test('the target knows its own slots and none of the source, and its first stream creates the slot for orders', async (t) => {
  const [from, to] = [await createTestDatabase(t), await createTestDatabase(t)]
  await prepareDatabase(from.addresses, silent)
  await insertOrders(from.pool, 3)
  await using db = await connectClient(from.url, 'test')
  const nothing = async () => {}
  const source = { db, name: 'the source', closeToOthers: nothing, assertAlone: nothing, close: async () => '' }
  await moveDatabase({ source, target: to.addresses, secret: TEST_SECRET, logger: silent, onStep() {} })
  const { rows } = await to.pool.query(
    `select slot_name, split_part(log_id, '.', 1) = system_identifier::text as is_own, lost_reason
    from slot_positions, pg_control_system()
    order by slot_name`,
  )
  const [catalogueSlot, orderSlot] = [catalogueSlotOf(to.url), orderSlotOf(to.url)]
  assert.deepEqual(
    rows,
    [catalogueSlot, orderSlot].map((name) => ({ slot_name: name, is_own: true, lost_reason: null })),
  )
  assert.match((await findLostReason(to.pool, orderSlot)) ?? '', /does not exist/)
  assert.equal(await findLostReason(to.pool, catalogueSlot), null)
  assert.equal((await to.pool.query('select from orders')).rowCount, 3)
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { connectTo, createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { beforeSlotsAreCreated, silent } from '../../test/stream-harness.ts'
import type { Queryable } from '../db/pool.ts'
import { withinMs } from '../within-ms.ts'
import { refillLostSlot } from './refill-slot.ts'
import { createReplicationSlot, slotNameFor } from './replication-slot.ts'
import { recordRefill } from './slot-positions.ts'

test('a refill begins only when a slot that another process creates meanwhile is there, because commits until then are in no slot', async (t) => {
  const db = await createTestDatabase(t)
  const slotName = slotNameFor(db.name, 'orders')
  await recordRefill(db.pool, slotName, { id: randomUUID(), reason: 'the slot is gone' })
  const creator = await connectTo(t, db.url)
  const isCreated = async () =>
    (await db.pool.query('select confirmed_flush_lsn is not null as yes from pg_replication_slots where slot_name = $1', [slotName]))
      .rows[0]?.yes
  let creation: Promise<void> | null = null
  const query = db.pool.query.bind(db.pool) as (statement: unknown, values?: unknown[]) => Promise<unknown>
  const pool = {
    async query(statement: string | { text: string }, values?: unknown[]) {
      if (creation === null && /wal_status/.test(typeof statement === 'string' ? statement : statement.text)) {
        creation = createReplicationSlot(creator, slotName)
        await eventually(async () => (await isCreated()) === false)
      }
      return query(statement, values)
    },
  }
  let wasCreated: boolean | undefined
  const publishStored = async () => {
    wasCreated = await isCreated()
    return true
  }
  const refilling = await beforeSlotsAreCreated(db.pool, async () => {
    const refilled = refillLostSlot(
      { url: db.url, pool: pool as unknown as Queryable, slotName, logger: silent, publishStored },
      AbortSignal.timeout(60_000),
    )
    await eventually(async () => creation !== null && (await isCreated()) === false)
    await delay(300)
    assert.equal(wasCreated, undefined, 'it waits')
    return { refilled }
  })
  await Promise.all([refilling.refilled, creation])
  assert.equal(wasCreated, true)
})

test('a refill that waits for the slot of another process ends when its stream stops', async (t) => {
  const db = await createTestDatabase(t)
  const slotName = slotNameFor(db.name, 'orders')
  const creator = await connectTo(t, db.url)
  let creation: Promise<void> | undefined
  await beforeSlotsAreCreated(db.pool, async () => {
    creation = createReplicationSlot(creator, slotName)
    await eventually(
      async () => (await db.pool.query('select from pg_replication_slots where slot_name = $1', [slotName])).rows.length === 1,
    )
    const stopping = new AbortController()
    const options = { url: db.url, pool: db.pool, slotName, logger: silent, publishStored: async () => true }
    const refilled = refillLostSlot(options, stopping.signal)
    stopping.abort()
    await assert.rejects(withinMs(4_000, refilled, null), { name: 'AbortError' })
  })
  await creation
})

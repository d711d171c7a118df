import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase, type TestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { SHARE } from '../../test/share.ts'
import { addProduct } from '../../test/store.ts'
import { beforeSlotsAreCreated, dropSlot, insertOrders, moveOrder, silent } from '../../test/stream-harness.ts'
import { prepareDatabase } from '../app/prepare-database.ts'
import { recordProductEvents } from '../catalogue/change-catalogue.ts'
import { inTransaction } from '../db/transaction.ts'
import { findLostReason, slotNameFor } from './replication-slot.ts'

const PROCESS = fileURLToPath(new URL('../../test/stream-process.ts', import.meta.url))
const THINGS = 3

/** A kind of changes: orders, or products with their events. */
interface Changing {
  partition: 'orders' | 'catalogue'
  add(db: TestDatabase): Promise<string[]>
  change(db: TestDatabase, id: string): Promise<unknown>
  messages: string
}

const PARTITIONS: readonly Changing[] = [
  {
    partition: 'orders',
    add: (db) => insertOrders(db.pool, THINGS),
    change: (db, id) => moveOrder(db.pool, id, 'cancelled'),
    messages: 'select id from topic_messages order by sequence',
  },
  {
    partition: 'catalogue',
    add: async (db) => (await Promise.all(Array.from({ length: THINGS }, () => addProduct(db.pool)))).map(({ id }) => id),
    change: ({ pool }, id) =>
      inTransaction(pool, async (tx) => {
        await tx.query(`update products set name = 'Another name' where id = $1`, [id])
        await recordProductEvents(tx, [id], null)
      }),
    messages: 'select id from catalogue_messages order by sequence',
  },
]

/** The published versions in the topic's order, by the id of their order or product. */
async function versionsOf({ pool }: TestDatabase, { messages }: Changing): Promise<Map<string, number[]>> {
  const { rows } = await pool.query<{ id: string }>(messages)
  const versions = new Map<string, number[]>()
  for (const { id } of rows) {
    const [subject = '', version] = id.split('.')
    versions.set(subject, [...(versions.get(subject) ?? []), Number(version)])
  }
  return versions
}

/** Starts a stream in a process that kills itself before its given statement. */
function startProcess(t: TestContext, url: string, partition: string, statement = 0) {
  const child = spawn(process.execPath, [PROCESS, url, partition, String(statement)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const kill = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await ended
  }
  onCleanup(t, kill)
  const isActive = once(child.stdout, 'data').then(() => true)
  return { kill, isActive: Promise.race([isActive, ended.then(() => false)]) }
}

for (const changing of PARTITIONS) {
  const { partition } = changing
  test(`a stream of ${partition} killed at any statement of its refill leaves the rest to the next one, beside a second stream`, {
    timeout: 600_000,
  }, async (t) => {
    const db = await createTestDatabase(t)
    await prepareDatabase(db.addresses, silent)
    const slotName = slotNameFor(db.name, partition)
    const expected = new Map<string, number[]>()
    let isWhole = false
    let statement = 1 + SHARE.first
    let rounds = 0
    for (; !isWhole; statement += SHARE.step) {
      await dropSlot({ ...db, slotName })
      const things = await changing.add(db)
      for (const id of things) expected.set(id, [1])
      // In every third round another process waits for the refill.
      const second = rounds++ % 3 === 0 ? startProcess(t, db.url, partition) : null
      const dying = startProcess(t, db.url, partition, statement)
      isWhole = await dying.isActive
      const [changed = ''] = things
      await changing.change(db, changed)
      expected.set(changed, [1, 2])
      const next = startProcess(t, db.url, partition)
      await eventually(async () => (await versionsOf(db, changing)).get(changed)?.length === 2, {
        what: `the change after statement ${statement}`,
      })
      await eventually(async () => (await versionsOf(db, changing)).size === expected.size, { what: `everything after ${statement}` })
      assert.deepEqual(await versionsOf(db, changing), expected)
      await eventually(async () => (await findLostReason(db.pool, slotName)) === null, { what: `a refilled slot after ${statement}` })
      await Promise.all([dying.kill(), next.kill(), second?.kill()])
    }
    t.diagnostic(`${statement} statements`)
    assert.ok(statement > 10, `${statement} statements`)
  })

  for (const processes of [1, 2])
    test(`the ${partition} slot counts as lost while ${processes} of its streams recreate it, and later commits come once`, async (t) => {
      const db = await createTestDatabase(t)
      await prepareDatabase(db.addresses, silent)
      const slotName = slotNameFor(db.name, partition)
      await dropSlot({ ...db, slotName })
      const things = await changing.add(db)
      const streams = await beforeSlotsAreCreated(db.pool, async () => {
        const started = Array.from({ length: processes }, () => startProcess(t, db.url, partition))
        await eventually(
          async () => (await db.pool.query('select from pg_replication_slots where slot_name = $1', [slotName])).rowCount === 1,
        )
        for (const id of things) await changing.change(db, id)
        assert.notEqual(await findLostReason(db.pool, slotName), null)
        assert.equal((await versionsOf(db, changing)).size, 0)
        return started
      })
      await eventually(async () => (await findLostReason(db.pool, slotName)) === null, { what: 'a refilled slot' })
      const [later = ''] = await changing.add(db)
      await eventually(async () => (await versionsOf(db, changing)).has(later), { what: 'the changes after the refill' })
      const versions = await versionsOf(db, changing)
      for (const id of things) assert.deepEqual(versions.get(id), [1, 2])
      await Promise.all(streams.map(({ kill }) => kill()))
    })
}

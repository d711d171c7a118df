import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { DELIVERED, PARCELS, type Parcel, readTransaction, recording, sendTo, setUp, times } from '../../test/delivery-harness.ts'
import { eventually } from '../../test/eventually.ts'
import type { WorkOptions } from './delivery-worker.ts'

test('a new receiver gets its first delivery while healthy ones with a backlog keep all places busy', async (t) => {
  const { db, queue } = await setUp(t)
  const arrived = new Map<string, number>()
  const options: WorkOptions = { places: 64, share: { perReceiver: 10, suspects: 4, slowMs: 5_000 } }
  const worker = queue.work<Parcel>(
    PARCELS,
    options,
    recording(async ({ label }, report) => {
      await delay(50)
      arrived.set(label, (arrived.get(label) ?? 0) + 1)
      report('well')
      return DELIVERED
    }),
  )
  for (const [count, name] of [
    [6, 'six'],
    [9, 'nine'],
  ] as const) {
    const busy = Array.from({ length: count }, (_, index) => `${name} ${index}`)
    await sendTo(db, worker, busy)
    await eventually(async () => busy.every((receiver) => arrived.has(receiver)))
    await sendTo(
      db,
      worker,
      busy.flatMap((receiver) => times(1_000, receiver)),
    )
    await eventually(async () => busy.every((receiver) => (arrived.get(receiver) ?? 0) > 30), { what: 'each of those with a backlog' })
    await sendTo(db, worker, [`new to ${name}`])
    await eventually(async () => arrived.has(`new to ${name}`), { what: `the first delivery beside ${name}` })
    for (const receiver of busy) assert.ok((arrived.get(receiver) ?? 0) < 800, `${receiver} had a backlog`)
  }
})

test('a new receiver whose delivery finds no free place costs no statements until there is one', async (t) => {
  const { db, queue } = await setUp(t)
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  const arrived = new Map<string, number>()
  const worker = queue.work<Parcel>(
    PARCELS,
    { places: 4, share: { perReceiver: 4, suspects: 2, slowMs: 600_000 } },
    recording(async ({ label }, report) => {
      arrived.set(label, (arrived.get(label) ?? 0) + 1)
      if ((arrived.get('busy') ?? 0) > 1) await gate.promise
      report('well')
      return DELIVERED
    }),
  )
  await sendTo(db, worker, ['busy'])
  await eventually(async () => (await db.pool.query(`select from parcels where status = 'queued'`)).rowCount === 0)
  await sendTo(db, worker, times(4, 'busy'))
  await eventually(async () => arrived.get('busy') === 5)
  await sendTo(db, worker, ['new'])
  const before = await readTransaction(db)
  await delay(2_000)
  const statements = (await readTransaction(db)) - before
  assert.ok(statements < 20, `${statements} statements`)
  gate.resolve()
  await eventually(async () => arrived.has('new'))
})

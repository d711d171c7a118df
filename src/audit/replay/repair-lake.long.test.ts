import assert from 'node:assert/strict'
import { copyFile, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { eventually } from '../../../test/eventually.ts'
import { listFiles, readEvents } from '../../../test/lake-harness.ts'
import { watchSteps } from '../../../test/lake-steps.ts'
import { farFromMidnight } from '../../../test/midnight.ts'
import { writeOldFile } from '../../../test/old-lake-file.ts'
import { type AuditedStore, startStoreWithFiles, summarise } from '../../../test/pipeline-audit.ts'
import { compactLake } from '../../lake/compact-lake.ts'
import { parseName } from '../../lake/lake-names.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { partitionMessages } from '../../topic/partition-messages.ts'
import { ORDERS } from '../../topic/partitions.ts'
import { repairLake } from './repair-lake.ts'

const now = () => new Date()

// Files of two days are not merged.
await farFromMidnight()

/** Each file has two events. */
const startWithFiles = (t: TestContext, files: number) => startStoreWithFiles(t, Array(files).fill(2))

const repairOn = (store: AuditedStore, lake: LakeStore, at = now) =>
  repairLake({ pool: store.pool, url: store.url, store: lake, topic: store.topic, now: at })

const pathsOf = async (store: AuditedStore) => (await listFiles(store.lake)).map((name) => join(store.lake, 'orders', name))

async function flipByte(path: string, offset = 300): Promise<void> {
  const bytes = await readFile(path)
  bytes[offset] = (bytes[offset] ?? 0) ^ 4
  await writeFile(path, bytes)
}

/** Copies the file's rows into the folder of another day, as a refill without a fence did around midnight. */
async function doubleFile(store: AuditedStore, path: string): Promise<void> {
  const { first = 0, last = 0 } = parseName(path.slice(path.indexOf('orders/'))) ?? {}
  const { messages } = partitionMessages(ORDERS, await store.topic.read(first - 1, last - first + 1))
  await writeOldFile(store.lake, messages, new Date(Date.now() - 86_400_000).toISOString().slice(0, 10))
}

async function assertWhole(store: AuditedStore, events: number): Promise<void> {
  assert.deepEqual(summarise(await store.verify()), [])
  assert.equal((await readEvents(store.lakeStore)).length, events)
}

test('rewrites damaged files, keeps the damaged ones, and changes nothing the second time', async (t) => {
  const store = await startWithFiles(t, 4)
  const [first = '', second = '', , fourth = ''] = await pathsOf(store)
  const damaged = await Promise.all([first, second].map((path) => readFile(path)))
  await flipByte(first)
  await writeFile(second, 'PAR1 it is not')
  // The newest file: the sink's position is in its name.
  await flipByte(fourth)
  assert.equal((await store.verify()).findings.find(({ kind }) => kind === 'corrupt')?.count, 3)
  const { quarantined, written, lost } = await repairOn(store, store.lakeStore)
  assert.deepEqual([quarantined.toSorted(), written, lost], [[first, second, fourth].map((path) => `${path}.corrupt`).sort(), 6, []])
  assert.notDeepEqual(await readFile(`${first}.corrupt`), damaged[0])
  assert.equal(await readFile(`${second}.corrupt`, 'utf8'), 'PAR1 it is not')
  await assertWhole(store, 8)
  assert.deepEqual(await repairOn(store, store.lakeStore), {
    quarantined: [],
    written: 0,
    later: 0,
    lost: [],
    tablesFailure: null,
  })
  // Merging and writing continue.
  assert.deepEqual((await compactLake({ store: store.lakeStore, isWanted: () => true, assertAlone: async () => {} })).failures, [])
  await store.startPipeline()
  await store.trade(2)
  await store.untilDelivered()
  await assertWhole(store, 10)
})

test('removes doubled rows, corrects altered ones, and adds missing ones, also within a merged file', async (t) => {
  const store = await startWithFiles(t, 4)
  const [first = '', second = '', third = ''] = await pathsOf(store)
  await doubleFile(store, first)
  assert.deepEqual(summarise(await store.verify()), ['lake doubled 2'])
  await repairOn(store, store.lakeStore)
  await assertWhole(store, 8)

  // A file without a checksum, with another price.
  const range = parseName(second.slice(second.indexOf('orders/')))
  const { messages } = partitionMessages(ORDERS, await store.topic.read((range?.first ?? 0) - 1, 2))
  await rm(second)
  const [altered, ...others] = structuredClone(messages)
  if (altered?.event.data.order.items[0] !== undefined) altered.event.data.order.items[0].quantity = 77
  await writeOldFile(store.lake, [...(altered === undefined ? [] : [altered]), ...others], range?.ingestDate)
  assert.deepEqual(summarise(await store.verify()), ['lake altered 1'])
  assert.equal((await repairOn(store, store.lakeStore)).written, 1)
  await assertWhole(store, 8)

  await rm(third)
  await compactLake({ store: store.lakeStore, isWanted: () => true, assertAlone: async () => {} })
  assert.deepEqual(summarise(await store.verify()), ['lake missing 2'])
  assert.equal((await repairOn(store, store.lakeStore)).written, 2)
  await assertWhole(store, 8)
  // A damaged file with another file within its range.
  const widthOf = (path: string) => {
    const { first = 0, last = 0 } = parseName(path.slice(path.indexOf('orders/'))) ?? {}
    return last - first
  }
  const [merged = ''] = (await pathsOf(store)).sort((a, b) => widthOf(b) - widthOf(a))
  await flipByte(merged)
  await repairOn(store, store.lakeStore)
  await assertWhole(store, 8)
})

test('makes events of a damaged file that the topic has lost from orders, and reports those that exist nowhere else', async (t) => {
  const store = await startWithFiles(t, 2)
  const [path = ''] = await pathsOf(store)
  const [kept, gone] = partitionMessages(ORDERS, await store.topic.read(0, 2)).messages
  // Damages the time of ingestion only, so every row can still be read.
  const bytes = await readFile(path)
  await store.pool.query('delete from topic_messages where id = any ($1)', [[kept?.event.id, gone?.event.id]])
  await flipByte(path, bytes.length - 60)
  const { written, lost } = await repairOn(store, store.lakeStore)
  assert.deepEqual([written, lost], [2, []])
  assert.deepEqual((await readEvents(store.lakeStore)).length, 4)
  // The other command publishes what the topic lacks, under new sequences.
  await store.replay()
  assert.deepEqual(summarise(await store.verify()), [])
})

/** Deletes two orders from the database and the topic, as a restore does: only the lake has their events. */
async function forgetOrders(store: AuditedStore, path: string): Promise<string[]> {
  const { first = 0, last = 0 } = parseName(path.slice(path.indexOf('orders/'))) ?? {}
  const { messages } = partitionMessages(ORDERS, await store.topic.read(first - 1, last - first + 1))
  const ids = messages.map(({ event }) => event.id)
  await store.pool.query('delete from topic_messages where id = any ($1)', [ids])
  await store.pool.query('delete from orders where id = any ($1)', [messages.map(({ event }) => event.data.order.id)])
  return ids
}

/** The merged file of all, with the merged files still there, as after a merge that was killed before its deletes. */
async function mergeBesides(store: AuditedStore): Promise<string> {
  const originals = await pathsOf(store)
  const bytes = await Promise.all(originals.map((path) => readFile(path)))
  await compactLake({ store: store.lakeStore, isWanted: () => true, assertAlone: async () => {} })
  const [merged = ''] = await pathsOf(store)
  for (const [index, path] of originals.entries()) await writeFile(path, bytes[index] ?? '')
  return merged
}

test('uses rows of superseded files when the file that supersedes them is damaged, misnamed or lacks rows', async (t) => {
  const store = await startWithFiles(t, 3)
  const [first = '', , third = ''] = await pathsOf(store)
  const forgotten = await forgetOrders(store, first)
  const whole = await readEvents(store.lakeStore)
  assert.equal(forgotten.length, 2)

  const bytesOfThird = await readFile(third)
  const merged = await mergeBesides(store)
  await truncate(merged, Math.floor((await stat(merged)).size / 2))
  const afterDamage = await repairOn(store, store.lakeStore)
  assert.deepEqual([afterDamage.quarantined, afterDamage.lost], [[`${merged}.corrupt`], []])
  assert.deepEqual(await readEvents(store.lakeStore), whole)
  assert.equal((await pathsOf(store)).length, 1)

  // A copy of a file with some of the events, under a name that covers all.
  const [only = ''] = await pathsOf(store)
  const wide = join(dirname(only), `0000000000000000-${third.slice(-'0000000000000000.parquet'.length, -'.parquet'.length)}.90.parquet`)
  await writeFile(wide, bytesOfThird)
  assert.deepEqual((await repairOn(store, store.lakeStore)).lost, [])
  assert.deepEqual(await readEvents(store.lakeStore), whole)

  await copyFile(`${merged}.corrupt`, join(dirname(only), '0000000000000000-0000000009999999.95.parquet'))
  assert.deepEqual((await repairOn(store, store.lakeStore)).lost, [])
  assert.deepEqual(await readEvents(store.lakeStore), whole)
  assert.deepEqual((await repairOn(store, store.lakeStore)).quarantined, [])
})

test('reports the events that only a misnamed file had', async (t) => {
  const store = await startWithFiles(t, 2)
  const [first = ''] = await pathsOf(store)
  const forgotten = await forgetOrders(store, first)
  const moved = join(dirname(first), '0000000000009001-0000000000009009.parquet')
  await rename(first, moved)
  const { lost, quarantined } = await repairOn(store, store.lakeStore)
  assert.deepEqual([lost.toSorted(), quarantined], [forgotten.toSorted(), [`${moved}.corrupt`]])
})

const CHANGES = ['put', 'quarantineCopy', 'delete']

test('a repair that is killed at any step leaves a lake with correct queries, and the next repair completes it', async (t) => {
  const store = await startWithFiles(t, 2)
  const whole = await readEvents(store.lakeStore)
  const steps: string[] = []
  class Killed extends Error {}
  for (let killAt = 1, isDone = false; !isDone; killAt++) {
    // Damages the footer, so that the rows can still be read.
    const [path = ''] = await pathsOf(store)
    await flipByte(path, (await readFile(path)).length - 60)
    let step = 0
    const dying = watchSteps(store.lakeStore, (at, name) => {
      if (!CHANGES.some((change) => at.endsWith(change)) || ++step < killAt) return
      if (step === killAt) steps.push(`${at} ${name.slice(0, name.search(/[-\d=]/))}`)
      throw new Killed()
    })
    isDone = await repairOn(store, dying).then(
      () => true,
      (error) => {
        if (!(error instanceof Killed)) throw error
        return false
      },
    )
    assert.deepEqual(await readEvents(store.lakeStore), whole, `killed ${steps.at(-1)}`)
    await repairOn(store, store.lakeStore)
    assert.deepEqual(await readEvents(store.lakeStore), whole, `repaired after ${steps.at(-1)}`)
  }
  assert.deepEqual(summarise(await store.verify()), [])
  for (const step of ['quarantineCopy orders', 'put .pending/repair', 'put orders', 'put .pending/repaired', 'delete orders'])
    assert.ok(
      steps.some((done) => done.includes(step)),
      step,
    )
  assert.ok((await readdir(join(store.lake, '.pending'))).length <= 1, 'one mark stays')
})

for (const [step, what] of [
  ['before put', 'repair'],
  ['after put', 'repair'],
  ['before put', 'orders'],
  ['after put', 'orders'],
  ['before put', 'repaired'],
  ['before delete', 'repair'],
] as const) {
  test(`a repair that lost its lock, paused ${step} of ${what} and woken after another one, doubles nothing`, async (t) => {
    const store = await startWithFiles(t, 3)
    const [, second = ''] = await pathsOf(store)
    await rm(second)
    const [asleep, woken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const isStep = (name: string) => (what === 'orders' ? name.startsWith('orders/') : name.startsWith(`.pending/${what}-`))
    const paused = watchSteps(store.lakeStore, async (at, name) => {
      if (at !== step || !isStep(name)) return
      asleep.resolve()
      await woken.promise
    })
    // Around midnight, so that its file gets another name.
    const late = repairOn(store, paused, () => new Date(Date.now() + 86_400_000)).then(
      () => 'done',
      (error: Error) => error.name,
    )
    await asleep.promise
    // A server does this with a silent client: both locks are released.
    await store.pool.query(
      `select pg_terminate_backend(pid)
      from pg_stat_activity
      where datname = current_database() and application_name in ('storefront-lake-files', 'storefront-replay')`,
    )
    await eventually(
      () =>
        repairOn(store, store.lakeStore).then(
          () => true,
          (error: Error) => error.name !== 'LakeBusy' && Promise.reject(error),
        ),
      { what: 'the lock' },
    )
    await assertWhole(store, 6)
    woken.resolve()
    // Its file may be the one that the other repair completed.
    await late
    await assertWhole(store, 6)
    assert.equal((await repairOn(store, store.lakeStore)).written, 0)
  })
}

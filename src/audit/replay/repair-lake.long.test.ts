import assert from 'node:assert/strict'
import { readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { eventually } from '../../../test/eventually.ts'
import { commitFile, listFiles, readEvents } from '../../../test/lake-harness.ts'
import { watchSteps } from '../../../test/lake-steps.ts'
import { farFromMidnight } from '../../../test/midnight.ts'
import { type AuditedStore, startStoreWithFiles, summarise } from '../../../test/pipeline-audit.ts'
import { compactLake } from '../../lake/compact-lake.ts'
import { commitSnapshot, locationsOf, readBase } from '../../lake/iceberg/commit-snapshot.ts'
import type { LiveFile } from '../../lake/iceberg/event-table.ts'
import { ORDER_EVENTS } from '../../lake/iceberg/lake-table.ts'
import { TableStore } from '../../lake/iceberg/table-store.ts'
import { withFreeLakeLock } from '../../lake/lake-lock.ts'
import { newName } from '../../lake/lake-names.ts'
import { toLakeRow } from '../../lake/lake-row.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { findLakeEnd, listLake } from '../../lake/list-files.ts'
import { writeParquet } from '../../lake/parquet-writer.ts'
import { partitionMessages } from '../../topic/partition-messages.ts'
import { ORDERS } from '../../topic/partitions.ts'
import type { TopicMessage } from '../../topic/topic.ts'
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

/** Adds another file of messages to the lake, which no writer would do. */
async function addFile(store: AuditedStore, messages: readonly TopicMessage[], removed: readonly LiveFile[] = []): Promise<void> {
  const ingestedAt = new Date().toISOString()
  const name = newName('orders', ingestedAt.slice(0, 10), messages[0]?.sequence ?? 0, messages.at(-1)?.sequence ?? 0)
  await store.lakeStore.withWorkspace(async (folder) => {
    const file = { path: join(folder, 'file'), location: name }
    const lines = messages.map((message) => JSON.stringify(toLakeRow(message, ingestedAt)))
    await writeParquet(file, lines, ORDER_EVENTS)
    await store.lakeStore.put(name, file.path)
  })
  await commitFile(store.lakeStore, name, removed)
}

const filesOf = ({ lakeStore }: AuditedStore) => listLake(lakeStore)

async function readMessages(store: AuditedStore, { first, last }: LiveFile): Promise<TopicMessage[]> {
  return partitionMessages(ORDERS, await store.topic.read(first - 1, last - first + 1)).messages
}

async function assertWhole(store: AuditedStore, events: number): Promise<void> {
  assert.deepEqual((await store.verify()).findings, [])
  assert.equal((await readEvents(store.lakeStore)).length, events)
}

test('rewrites damaged files, keeps the damaged versions, and changes nothing the second time', async (t) => {
  const store = await startWithFiles(t, 4)
  const [first = '', second = '', , fourth = ''] = await pathsOf(store)
  const damaged = await Promise.all([first, second].map((path) => readFile(path)))
  await flipByte(first)
  await writeFile(second, 'PAR1 it is not')
  await flipByte(fourth)
  assert.equal((await store.verify()).findings.find(({ place, kind }) => place === 'lake' && kind === 'corrupt')?.count, 3)
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
    lostRows: [],
    tablesFailure: null,
  })
  // Merging and writing continue.
  assert.deepEqual((await compactLake({ store: store.lakeStore, isWanted: () => true })).failures, [])
  await store.startPipeline()
  await store.trade(2)
  await store.untilDelivered()
  await assertWhole(store, 10)
})

test('removes repeated rows, corrects altered rows and adds missing rows, also within a merged file', async (t) => {
  const store = await startWithFiles(t, 4)
  const [first = assert.fail(), second = assert.fail()] = await filesOf(store)
  await addFile(store, await readMessages(store, first))
  assert.deepEqual(summarise(await store.verify()), ['lake doubled 2'])
  await repairOn(store, store.lakeStore)
  await assertWhole(store, 8)

  const messages = structuredClone(await readMessages(store, second))
  const [item = assert.fail()] = messages[0]?.event.data.order.items ?? []
  item.quantity = 77
  await addFile(store, messages, [second])
  assert.deepEqual(summarise(await store.verify()), ['lake altered 1'])
  assert.equal((await repairOn(store, store.lakeStore)).written, 1)
  await assertWhole(store, 8)

  const [gone = assert.fail()] = await filesOf(store)
  await rm(store.lakeStore.locate(gone.name))
  const missing = (await readMessages(store, gone)).length
  assert.deepEqual(summarise(await store.verify()), [`lake missing ${missing}`, 'lake corrupt 1'])
  assert.equal((await repairOn(store, store.lakeStore)).written, missing)
  await assertWhole(store, 8)
  await compactLake({ store: store.lakeStore, isWanted: () => true })
  const [merged = assert.fail(), ...others] = await pathsOf(store)
  assert.deepEqual(others, [])
  await flipByte(merged)
  await repairOn(store, store.lakeStore)
  await assertWhole(store, 8)
})

test('recreates events of a damaged file from orders if the topic has lost them, and reports events that exist nowhere else', async (t) => {
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
  assert.deepEqual((await store.verify()).findings, [])
})

for (const [what, damage] of [
  // The rows can still be read.
  ['a damaged footer', async (path: string) => flipByte(path, (await readFile(path)).length - 60)],
  ['half of a file', (path: string) => truncate(path, 1_000)],
  ['a file that is gone', (path: string) => rm(path)],
] as const) {
  test(`counts the rows of ${what} that neither topic nor database has, and names their events if possible`, async (t) => {
    const store = await startWithFiles(t, 3)
    const [first = assert.fail(), second = assert.fail()] = await filesOf(store)
    const messages = [...(await readMessages(store, first)), ...(await readMessages(store, second)).slice(1)]
    const ids = messages.map(({ event }) => event.id)
    await store.pool.query('delete from topic_messages where id = any ($1)', [ids])
    await store.pool.query('delete from orders where id = any ($1)', [messages.map(({ event }) => event.data.order.id)])
    const paths = [first, second].map(({ name }) => store.lakeStore.locate(name))
    for (const path of paths) await damage(path)
    const { lost, lostRows, written } = await repairOn(store, store.lakeStore)
    assert.deepEqual(lost.toSorted(), what === 'a damaged footer' ? ids.toSorted() : [])
    assert.deepEqual(lostRows, [
      { path: paths[0], rows: 2 },
      { path: paths[1], rows: 1 },
    ])
    assert.equal(written, 1)
    assert.deepEqual((await repairOn(store, store.lakeStore)).lostRows, [])
  })
}

test('rows of a missing file do not count as lost if a replay has published their events again', async (t) => {
  const store = await startWithFiles(t, 2)
  const [file = assert.fail(), later = assert.fail()] = await filesOf(store)
  const hourLater = new Date(later.newest + 3_600_000).toISOString()
  await store.pool.query(`update topic_messages set event = jsonb_set(event::jsonb, '{time}', to_jsonb($1::text)) where sequence = $2`, [
    hourLater,
    later.last,
  ])
  await store.pool.query('delete from topic_messages where sequence <= $1', [file.last])
  await rm(store.lakeStore.locate(file.name))
  await store.replay()
  assert.deepEqual((await repairOn(store, store.lakeStore)).lostRows, [])
})

for (const [what, gone, lost] of [
  ['in an intact file', 1, [2]],
  ['in one of two lost files', 2, [1, 2]],
] as const) {
  test(`an event ${what} that a replay has published again does not count as a row of another file`, async (t) => {
    const store = await startWithFiles(t, 3)
    const [first = assert.fail(), second = assert.fail(), later = assert.fail()] = await filesOf(store)
    const messages = [...(await readMessages(store, first)), ...(await readMessages(store, second))]
    const [a = assert.fail(), b = assert.fail(), c = assert.fail(), d = assert.fail()] = messages
    // Both have events of the same period.
    await addFile(store, [a, d], [first, second])
    await addFile(store, [b, c])
    const hourLater = new Date(later.newest + 3_600_000).toISOString()
    await store.pool.query(`update topic_messages set event = jsonb_set(event::jsonb, '{time}', to_jsonb($1::text)) where sequence = $2`, [
      hourLater,
      later.last,
    ])
    const forgotten = gone === 1 ? [a, d] : [a, c, d]
    await store.pool.query('delete from topic_messages where id = any ($1)', [[...forgotten, b].map(({ event }) => event.id)])
    await store.pool.query('delete from orders where id = any ($1)', [forgotten.map(({ event }) => event.data.order.id)])
    await store.replay()
    const files = (await filesOf(store)).filter(({ first: sequence }) => sequence < later.first).slice(0, gone)
    for (const { name } of files) await rm(store.lakeStore.locate(name))
    assert.deepEqual(
      (await repairOn(store, store.lakeStore)).lostRows,
      files.map(({ name }, index) => ({ path: store.lakeStore.locate(name), rows: lost[index] })),
    )
  })
}

test('the number of lost rows is unknown, not zero, for an unreadable file that no metadata describe', async (t) => {
  const store = await startWithFiles(t, 2)
  const [file = assert.fail(), other = assert.fail()] = await filesOf(store)
  const messages = await readMessages(store, file)
  await store.pool.query('delete from topic_messages where id = any ($1)', [messages.map(({ event }) => event.id)])
  for (const { name } of [file, other]) await truncate(store.lakeStore.locate(name), 1_000)
  await rm(store.lakeStore.locate('iceberg/order_events'), { recursive: true })
  const { lostRows } = await repairOn(store, store.lakeStore)
  assert.deepEqual(lostRows, [{ path: store.lakeStore.locate(file.name), rows: null }])
})

for (const [what, damage] of [
  ['the newest metadata', async (store: AuditedStore) => truncate(await newestOf(store, /\.json$/), 100)],
  ['the manifests', async (store: AuditedStore) => truncate(await newestOf(store, /manifest-.*\.avro$/), 100)],
  ['all metadata', (store: AuditedStore) => rm(store.lakeStore.locate('iceberg/order_events'), { recursive: true })],
  ['a snapshot of an earlier release', overwriteAsBefore],
] as const) {
  test(`rebuilds ${what} from the files, also with rows that the topic has lost and beside files that no snapshot has`, async (t) => {
    const store = await startWithFiles(t, 4)
    const whole = await readEvents(store.lakeStore)
    await compactLake({ store: store.lakeStore, isWanted: () => true })
    const stop = await store.startPipeline()
    await store.trade(2)
    await store.untilDelivered()
    await stop()
    const [oldest = assert.fail()] = await filesOf(store)
    const end = await findLakeEnd(store.lakeStore)
    await store.pool.query('delete from topic_messages where sequence = $1', [oldest.first])
    await damage(store)
    assert.ok(summarise(await store.verify()).includes('lake corrupt 1'))
    await assert.rejects(readEvents(store.lakeStore), { name: 'LakeQueryError' })
    assert.deepEqual((await repairOn(store, store.lakeStore)).lost, [])
    const events = await readEvents(store.lakeStore)
    assert.deepEqual([events.length, new Set(events).size, await findLakeEnd(store.lakeStore)], [10, 10, end])
    assert.deepEqual(events.slice(0, 8), whole)
    assert.deepEqual((await repairOn(store, store.lakeStore)).quarantined, [])
  })
}

test('recreates the events of a damaged file or names them, even if the metadata are missing', async (t) => {
  const store = await startWithFiles(t, 3)
  const [path = ''] = await pathsOf(store)
  const [kept, gone] = partitionMessages(ORDERS, await store.topic.read(0, 2)).messages
  await store.pool.query('delete from topic_messages where id = any ($1)', [[kept?.event.id, gone?.event.id]])
  await flipByte(path, (await readFile(path)).length - 60)
  await rm(store.lakeStore.locate('iceberg/order_events'), { recursive: true })
  const { written, lost, quarantined } = await repairOn(store, store.lakeStore)
  assert.deepEqual([written, lost, quarantined], [2, [], [`${path}.corrupt`]])
  assert.equal((await readEvents(store.lakeStore)).length, 6)
})

/** Commits as a release did whose snapshots did not decide. */
async function overwriteAsBefore({ lakeStore }: AuditedStore): Promise<void> {
  const table = new TableStore(lakeStore, ORDER_EVENTS.name)
  const base = await readBase(table)
  const change = { operation: 'overwrite', added: [], removed: new Set(locationsOf(base)) } as const
  assert.ok(await commitSnapshot(table, ORDER_EVENTS, base, change, now()))
}

/** The path of the newest metadata file whose name matches. */
async function newestOf(store: AuditedStore, name: RegExp): Promise<string> {
  const files = (await store.lakeStore.list('iceberg/order_events/metadata/')).filter((file) => name.test(file.name))
  return store.lakeStore.locate(files.toSorted((a, b) => a.storedAt - b.storedAt).at(-1)?.name ?? assert.fail())
}

const CHANGES = ['put', 'quarantineCopy', 'delete']

test('after a repair was killed at any step, queries are correct, and the next repair completes it', async (t) => {
  const store = await startWithFiles(t, 2)
  const whole = await readEvents(store.lakeStore)
  const steps: string[] = []
  class Killed extends Error {}
  for (let killAt = 1, isDone = false; !isDone; killAt++) {
    // This damages the footer, so the rows can still be read.
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
  assert.deepEqual((await store.verify()).findings, [])
  for (const step of ['quarantineCopy orders', 'put orders', 'put iceberg'])
    assert.ok(
      steps.some((done) => done.includes(step)),
      step,
    )
})

test('a repair waits until files are merged', async (t) => {
  const store = await startWithFiles(t, 1)
  const [taken, merged] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const merging = withFreeLakeLock(store.url, async () => {
    taken.resolve()
    await merged.promise
  })
  await taken.promise
  const repair = repairOn(store, store.lakeStore)
  const isWaiting = `select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`
  await eventually(async () => (await store.pool.query(isWaiting)).rowCount === 1, { what: 'a repair that waits' })
  merged.resolve()
  await merging
  assert.equal((await repair).written, 0)
})

for (const [step, what] of [
  ['before put', 'orders/'],
  ['after put', 'orders/'],
  ['before put', 'iceberg/order_events/metadata/v'],
  ['after put', 'iceberg/order_events/metadata/v'],
] as const) {
  test(`a repair that lost its lock, paused ${step} of ${what} and continued after another repair, stores nothing twice`, async (t) => {
    const store = await startWithFiles(t, 3)
    const [, second = ''] = await pathsOf(store)
    await rm(second)
    const [asleep, woken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const isStep = (name: string) => name.startsWith(what)
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
    assert.equal(await late, step === 'after put' && what.endsWith('v') ? 'done' : 'LakeBusy')
    await assertWhole(store, 6)
    assert.equal((await repairOn(store, store.lakeStore)).written, 0)
  })
}

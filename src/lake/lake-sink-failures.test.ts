import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { cp, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import {
  ageTemporaries,
  listTemporaries,
  makeLakeDirectory,
  NEVER,
  range,
  readEvents,
  readSequences,
  startSink,
} from '../../test/lake-harness.ts'
import { collectLog } from '../../test/logs.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { silent } from '../../test/stream-harness.ts'
import { idsOf, makeOutgoing, subscribe } from '../../test/topic-harness.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import { LakeBehind } from './lake-files.ts'
import { LocalLakeStore } from './local-store.ts'

test('a batch throws when the disk fails, and each row is written once after the disk is back', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 5 })
  await writeFile(join(directory, '..', 'block'), '')
  await mkdir(directory, { recursive: true })
  await rename(join(directory, '..', 'block'), join(directory, 'orders'))
  await assert.rejects(sink.handle(makeMessages(7), NEVER))
  await assert.rejects(sink.handle(makeMessages(7), NEVER), 'a full buffer takes no more')
  await rm(join(directory, 'orders'))
  assert.equal(await sink.lastSequence(), 0)
  await sink.handle(makeMessages(7), NEVER)
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, 7))
  assert.deepEqual(await listTemporaries(directory), [])
})

test('logs a failed flush of the timer, keeps the rows, and retries automatically', async (t) => {
  const directory = makeLakeDirectory(t)
  const { logger, lines } = collectLog('error')
  const sink = await startSink(t, directory, { flushSeconds: 0.02, logger })
  await rm(join(directory, '.tmp'), { recursive: true })
  await writeFile(join(directory, '.tmp'), 'a file where a folder belongs')
  await sink.handle(makeMessages(3), NEVER)
  await eventually(async () => lines.length >= 2, { what: 'a logged second failure' })
  await sink.handle(makeMessages(2, 4), NEVER)
  assert.match(lines[0] ?? '', /lake flush failed/)
  await rm(join(directory, '.tmp'))
  await eventually(async () => (await readSequences(directory)).length === 5, { what: 'the rows of the failed flush' })
  assert.deepEqual(await readSequences(directory), range(1, 5))
})

test('reports that the lake cannot be written, with or without events to write, until it can be written again', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushSeconds: 0.02 })
  assert.equal(await sink.findFailure(), null)
  await writeFile(join(directory, '.tmp.away'), '')
  await rm(join(directory, '.tmp'), { recursive: true, force: true })
  await rename(join(directory, '.tmp.away'), join(directory, '.tmp'))
  const failure = await eventually(async () => (await sink.findFailure()) ?? undefined, { what: 'the failure of an idle lake' })
  assert.match(failure, /ENOTDIR|EEXIST/)
  await sink.handle(makeMessages(3), NEVER)
  await assert.rejects(sink.flush())
  assert.match((await sink.findFailure()) ?? '', /ENOTDIR|EEXIST/)
  await rm(join(directory, '.tmp'))
  await eventually(async () => (await sink.findFailure()) === null, { what: 'a lake that is written again' })
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, 3))
})

test('stops without throwing if the last flush fails, and accepts those events again after the next start', async (t) => {
  const directory = makeLakeDirectory(t)
  const { logger, lines } = collectLog('error')
  const sink = await startSink(t, directory, { logger })
  await sink.handle(makeMessages(3), NEVER)
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, 'orders'), '')
  await sink.stop()
  assert.equal(lines.length, 1)
  await rm(join(directory, 'orders'))
  await sink.start()
  assert.equal(await sink.lastSequence(), 0)
  await sink.handle(makeMessages(3), NEVER)
  await sink.stop()
  assert.deepEqual(await readSequences(directory), [1, 2, 3])
})

test('skips events that a second active sink has already written', async (t) => {
  const directory = makeLakeDirectory(t)
  const first = await startSink(t, directory)
  const second = await startSink(t, directory)
  await first.handle(makeMessages(8), NEVER)
  await second.handle(makeMessages(5), NEVER)
  await second.flush()
  await first.flush()
  assert.deepEqual(await readSequences(directory), range(1, 8))
})

test('accepts the missing events again after an older copy has replaced the lake', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  const store = async (first: number, count: number) => {
    await sink.handle(makeMessages(count, first), NEVER)
    await sink.flush()
  }
  await store(1, 3)
  await cp(directory, `${directory}.older`, { recursive: true })
  await store(4, 2)
  await rm(directory, { recursive: true })
  await rename(`${directory}.older`, directory)
  await assert.rejects(store(6, 1), LakeBehind)
  await assert.rejects(sink.handle(makeMessages(1, 7), NEVER), LakeBehind, 'the subscription begins again')
  assert.equal(await sink.lastSequence(), 3)
  await store(4, 4)
  assert.deepEqual(await readSequences(directory), range(1, 7))
})

test('what an older copy of the lake lacks is delivered again although no further event arrives', async (t) => {
  const directory = makeLakeDirectory(t)
  const db = await createTestDatabase(t)
  const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent })
  const { handle, lastSequence } = await startSink(t, directory, { flushSeconds: 0.02 })
  await subscribe(t, topic, 'lake', handle, { lastSequence })
  const sent = makeOutgoing(3)
  const untilStored = async (count: number) => {
    const hasAll = async () => isDeepStrictEqual(await readEvents(new LocalLakeStore(directory)), idsOf(sent.slice(0, count)))
    await eventually(hasAll, { what: `${count} events in the lake` })
  }
  await topic.publish(sent.slice(0, 1))
  await untilStored(1)
  await cp(directory, `${directory}.older`, { recursive: true })
  await topic.publish(sent.slice(1, 2))
  await untilStored(2)
  await rm(directory, { recursive: true })
  await rename(`${directory}.older`, directory)
  await topic.publish(sent.slice(2))
  await untilStored(3)
})

test('removes a file that a killed process left half-written, and readers never see it', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  await sink.handle(makeMessages(2), NEVER)
  await sink.stop()
  await mkdir(join(directory, '.tmp', 'x.writing.spill'), { recursive: true })
  await writeFile(join(directory, '.tmp', 'x.writing'), 'half a file')
  assert.deepEqual(await readSequences(directory), [1, 2])
  await ageTemporaries(directory)
  await sink.start()
  assert.deepEqual(await listTemporaries(directory), [])
  assert.equal(await sink.lastSequence(), 2)
})

test('a sink that is killed at any moment leaves each event in at most one file, and accepts the rest after a restart', async (t) => {
  const directory = makeLakeDirectory(t)
  const last = 400
  const program = fileURLToPath(new URL('../../test/lake-writer-process.ts', import.meta.url))
  for (const files of [1, 3, 5]) {
    const child = spawn(process.execPath, [program, directory, String(last), String(files)], { stdio: 'ignore' })
    t.after(() => child.kill('SIGKILL'))
    assert.deepEqual(await once(child, 'close'), [null, 'SIGKILL'])
    const sequences = await readSequences(directory)
    assert.deepEqual(sequences, range(1, sequences.length))
    assert.ok(sequences.length < last)
  }
  await ageTemporaries(directory)
  const sink = await startSink(t, directory)
  const stored = await sink.lastSequence()
  assert.deepEqual(await listTemporaries(directory), [])
  await sink.handle(makeMessages(last - stored, stored + 1), NEVER)
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, last))
})

test('reports storage that neither answers nor fails, until it answers', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  // A pipe blocks a process that opens it, as a folder on a network does whose server is gone.
  const pipe = join(directory, 'iceberg/order_events/metadata/v9.metadata.json')
  execFileSync('mkfifo', [pipe])
  await sink.handle(makeMessages(3), NEVER)
  const flushing = sink.flush().catch(() => {})
  let isReleased = false
  // Opened for both, so that it does not wait for the other side itself.
  const release = async () => {
    while (!isReleased) {
      closeSync(openSync(pipe, 'r+'))
      await setImmediate()
    }
  }
  assert.equal(await sink.findFailure(), null)
  const { mock } = t.mock.method(
    performance,
    'now',
    (
      (now) => () =>
        now + 31_000
    )(performance.now()),
  )
  assert.match((await sink.findFailure()) ?? '', /^the storage has not answered for 3\d s$/)
  mock.restore()
  const releasing = release()
  await flushing
  isReleased = true
  await releasing
  await rm(pipe, { force: true })
  await sink.flush()
  assert.equal(await sink.findFailure(), null)
  assert.deepEqual(await readSequences(directory), range(1, 3))
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { eventually } from '../../test/eventually.ts'
import { listFiles, makeLakeDirectory, NEVER, range, readSequences, startSink, withoutTag } from '../../test/lake-harness.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { ORDER_DATASET } from './lake-dataset.ts'
import { LakeSink } from './lake-sink.ts'
import { LocalLakeStore } from './local-store.ts'

test('writes a file for each full buffer, and keeps the rest in memory', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 10 })
  await sink.handle(makeMessages(25), NEVER)
  assert.deepEqual((await listFiles(directory)).map(withoutTag), [
    'ingest_date=2026-03-01/0000000000000001-0000000000000010.parquet',
    'ingest_date=2026-03-01/0000000000000011-0000000000000020.parquet',
  ])
  assert.deepEqual(await readSequences(directory), range(1, 20))
})

test('writes a partly full buffer after its oldest event has waited long enough', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushSeconds: 0.5 })
  await sink.handle(makeMessages(3), NEVER)
  await eventually(async () => (await listFiles(directory)).length === 1, { what: 'a file of the timer' })
  await sink.handle(makeMessages(2, 4), NEVER)
  await eventually(async () => (await listFiles(directory)).length === 2, { what: 'a second file of the timer' })
  assert.deepEqual(await readSequences(directory), range(1, 5))
})

test('writes the end of a backlog soon after the last event, but lets a smaller buffer wait', async (t) => {
  const directory = makeLakeDirectory(t)
  const written: number[] = []
  const sink = await startSink(t, directory, { flushRows: 50_000, onFileWritten: (rows) => written.push(rows) })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  await sink.handle(makeMessages(999), NEVER)
  t.mock.timers.tick(1_000)
  await sink.handle(makeMessages(1, 1_000), NEVER)
  t.mock.timers.tick(199)
  await sink.handle(makeMessages(1, 1_001), NEVER)
  t.mock.timers.tick(199)
  assert.deepEqual(written, [])
  t.mock.timers.tick(1)
  await sink.handle(makeMessages(2, 1_002), NEVER)
  // The rest is no backlog: it waits, here for the end.
  t.mock.timers.tick(1_000)
  t.mock.timers.reset()
  await eventually(async () => written.length === 1, { what: 'a file behind the backlog' })
  await sink.stop()
  assert.deepEqual(written, [1_001, 2])
  assert.deepEqual(await readSequences(directory), range(1, 1_003))
})

test('lets a thousand rows wait if they arrived at the speed of customers', async (t) => {
  const written: number[] = []
  const sink = await startSink(t, makeLakeDirectory(t), { flushRows: 50_000, onFileWritten: (rows) => written.push(rows) })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let now = 0
  t.mock.method(performance, 'now', () => now)
  for (let second = 0; second < 5; second++) {
    await sink.handle(makeMessages(400, 1 + 400 * second), NEVER)
    now += 1_000
    t.mock.timers.tick(1_000)
  }
  t.mock.timers.reset()
  await sink.stop()
  assert.deepEqual(written, [2_000])
})

test('writes each row once, even if several flushes wait for the previous file', async (t) => {
  const written: number[] = []
  const sink = await startSink(t, makeLakeDirectory(t), { onFileWritten: (rows) => written.push(rows) })
  await sink.handle(makeMessages(3), NEVER)
  const first = sink.flush()
  await sink.handle(makeMessages(2, 4), NEVER)
  await Promise.all([first, sink.flush(), sink.flush(), sink.flush()])
  assert.deepEqual(written, [3, 2])
})

test('stopping writes the buffer, and stopping again adds nothing', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  await sink.handle(makeMessages(3), NEVER)
  await Promise.all([sink.stop(), sink.stop()])
  await sink.stop()
  assert.deepEqual(await readSequences(directory), [1, 2, 3])
  assert.equal((await listFiles(directory)).length, 1)
})

test('can be stopped before it is started', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = new LakeSink({
    dataset: ORDER_DATASET,
    store: new LocalLakeStore(directory),
    flushSeconds: 1,
    flushRows: 1,
    logger: pino({ level: 'silent' }),
  })
  await sink.stop()
  await assert.rejects(sink.handle(makeMessages(1), NEVER), /not running/)
  assert.deepEqual(await listFiles(directory), [])
})

test('a restarted sink, or another one, continues after the newest file', async (t) => {
  const directory = makeLakeDirectory(t)
  const first = await startSink(t, directory, { flushRows: 4 })
  assert.equal(await first.lastSequence(), 0)
  await first.handle(makeMessages(6), NEVER)
  await first.stop()
  const second = await startSink(t, directory)
  assert.equal(await second.lastSequence(), 6)
  await second.handle(makeMessages(4, 5), NEVER)
  await second.stop()
  await first.start()
  assert.equal(await first.lastSequence(), 8)
  assert.deepEqual(await readSequences(directory), range(1, 8))
})

test('its position is the highest sequence of all dates, even if the clock was set back', async (t) => {
  const directory = makeLakeDirectory(t)
  let now = new Date('2026-03-02T00:00:00Z')
  const sink = await startSink(t, directory, { now: () => now })
  await sink.handle(makeMessages(2), NEVER)
  now = new Date('2026-02-27T00:00:00Z')
  await sink.handle(makeMessages(2, 3), NEVER)
  await sink.flush()
  assert.equal(await sink.lastSequence(), 4)
})

test('keeps writing each event once while the clock jumps ahead and back by days', async (t) => {
  const directory = makeLakeDirectory(t)
  let now = new Date('2026-03-01T12:00:00Z')
  const sink = await startSink(t, directory, { flushSeconds: 0.1, now: () => now })
  const dates = ['2026-03-03', '2026-02-27', '2026-03-02', '2026-03-01']
  for (const [index, date] of dates.entries()) {
    // Three events are not in a file yet when the clock is set, and three follow.
    await sink.handle(makeMessages(3, 6 * index + 1), NEVER)
    now = new Date(`${date}T12:00:00Z`)
    await sink.handle(makeMessages(3, 6 * index + 4), NEVER)
    await eventually(async () => (await readSequences(directory)).length === 6 * (index + 1), { what: `files of ${date}` })
  }
  const folders = (await listFiles(directory)).map((name) => name.split('/')[0])
  assert.deepEqual([...new Set(folders)], dates.map((date) => `ingest_date=${date}`).toSorted())
  assert.deepEqual(await readSequences(directory), range(1, 24))
  assert.equal(await sink.lastSequence(), 24)
})

test('writes redelivered messages once, whether they are still buffered or already stored', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  const messages = makeMessages(5)
  await sink.handle(messages.slice(0, 3), NEVER)
  await sink.handle(messages, NEVER)
  await sink.flush()
  await sink.handle(messages, NEVER)
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, 5))
  assert.equal((await listFiles(directory)).length, 1)
})

test('discards the buffer when its position is read, and accepts the same events again', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  await sink.handle(makeMessages(2), NEVER)
  await sink.flush()
  await sink.handle(makeMessages(3, 3), NEVER)
  assert.equal(await sink.lastSequence(), 2)
  await sink.flush()
  assert.deepEqual(await readSequences(directory), [1, 2])
  await sink.handle(makeMessages(3, 3), NEVER)
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, 5))
})

test('leaves no gap if its position is read while a batch waits for the disk', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 10 })
  const batch = sink.handle(makeMessages(35), NEVER)
  const [stored] = await Promise.all([sink.lastSequence(), assert.rejects(batch, /gave up its buffer/)])
  await sink.handle(makeMessages(35 - stored, stored + 1), NEVER)
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, 35))
})

test('a batch during which the sink stops ends with an error, and the rest is accepted after the next start', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 10 })
  const batch = sink.handle(makeMessages(35), NEVER)
  await Promise.all([sink.stop(), assert.rejects(batch, /stopped/)])
  const before = await readSequences(directory)
  assert.deepEqual(before, range(1, before.length))
  await sink.start()
  const stored = await sink.lastSequence()
  await sink.handle(makeMessages(35 - stored, stored + 1), NEVER)
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, 35))
})

test('accepts messages while a file is being written, and puts them into the next file', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  await sink.handle(makeMessages(10), NEVER)
  const flushed = sink.flush()
  await sink.handle(makeMessages(10, 11), NEVER)
  await flushed
  assert.deepEqual(await readSequences(directory), range(1, 10))
  await Promise.all([sink.flush(), sink.flush()])
  assert.deepEqual(await readSequences(directory), range(1, 20))
  assert.equal((await listFiles(directory)).length, 2)
})

test('a batch ends early if the subscription stops while it waits for the disk', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 2 })
  const controller = new AbortController()
  const batch = sink.handle(makeMessages(100), controller.signal)
  controller.abort()
  await batch
  await sink.stop()
  assert.deepEqual(await readSequences(directory), [1, 2])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listFiles, makeLakeDirectory, NEVER, range, readSequences, startSink } from '../../../test/lake-harness.ts'
import { makeMessages } from '../../../test/order-event-factory.ts'
import { EPOCH_SEQUENCES, epochOf, FencedOut, type TopicMessage } from '../topic.ts'

const OVERTAKEN = {
  check: async () => {
    throw new FencedOut('another process has taken over')
  },
}

/** The same events as a stream that was made anew gives them. */
const again = (messages: readonly TopicMessage[], epoch: number): TopicMessage[] =>
  messages.map(({ event }, index) => ({ sequence: epoch * EPOCH_SEQUENCES + index + 1, event }))

test('writes no file, and forgets what it holds, when another process has taken over', async (t) => {
  const directory = await makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  await sink.handle(makeMessages(3), NEVER, OVERTAKEN)
  await assert.rejects(sink.flush(), FencedOut)
  await sink.flush()
  assert.deepEqual(await listFiles(directory), [])
  assert.equal(await sink.lastSequence(), 0)
  await sink.handle(makeMessages(3), NEVER, { check: async () => {} })
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, 3))
})

test('holds each event once when a topic that was made anew gives it again, new ones between', async (t) => {
  const directory = await makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 4 })
  const messages = makeMessages(12)
  await sink.handle(messages.slice(0, 6), NEVER)
  await sink.flush()
  const parts = [messages.slice(3, 5), messages.slice(6, 9), messages.slice(0, 3), messages.slice(9), messages.slice(5, 6)]
  const replayed = again(parts.flat(), 2)
  const isNew = new Set(messages.slice(6).map(({ event }) => event.id))
  const expected = [...range(1, 6), ...replayed.filter(({ event }) => isNew.has(event.id)).map(({ sequence }) => sequence)]
  await sink.lastSequence()
  await sink.handle(replayed, NEVER)
  await sink.flush()
  assert.deepEqual(await readSequences(directory), expected)
  assert.deepEqual([...new Set(expected.map(epochOf))], [0, 2])
  // Whoever takes over gets again what was dropped behind the last file, and drops it too.
  const position = await sink.lastSequence()
  await sink.handle(
    replayed.filter(({ sequence }) => sequence > position),
    NEVER,
  )
  await sink.flush()
  assert.deepEqual(await readSequences(directory), expected)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listFiles, makeLakeDirectory, NEVER, range, readSequences, startSink } from '../../test/lake-harness.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { FencedOut } from '../topic/topic.ts'

const OVERTAKEN = {
  check: async () => {
    throw new FencedOut('another process has taken over')
  },
}

test('writes no file and discards its buffer after another process has taken over', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  await sink.handle(makeMessages(3), NEVER, OVERTAKEN)
  await assert.rejects(sink.flush(), FencedOut)
  assert.equal(await sink.findFailure(), null, 'the other process writes the lake')
  await sink.flush()
  assert.deepEqual(await listFiles(directory), [])
  assert.equal(await sink.lastSequence(), 0)
  await sink.handle(makeMessages(3), NEVER, { check: async () => {} })
  await sink.flush()
  assert.deepEqual(await readSequences(directory), range(1, 3))
})

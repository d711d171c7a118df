import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listFiles, makeLakeDirectory, NEVER, readSequences, startSink } from '../../../test/lake-harness.ts'
import { makeMessages } from '../../../test/order-event-factory.ts'

test('leaves out events that come again under new sequences, in a file, in memory and after a restart', async (t) => {
  const directory = await makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  const first = makeMessages(5)
  const again = (from: number) => first.map((message, index) => ({ ...message, sequence: from + index }))
  await sink.handle([...first, ...again(6)], NEVER)
  await sink.flush()
  await sink.handle(again(11), NEVER)
  await sink.flush()
  await sink.stop()
  const later = await startSink(t, directory)
  const fresh = makeMessages(2, 16)
  await later.handle([...again(18), ...fresh.map((message, index) => ({ ...message, sequence: 23 + index }))], NEVER)
  await later.flush()
  assert.deepEqual(await readSequences(directory), [1, 2, 3, 4, 5, 23, 24])
  assert.equal((await listFiles(directory)).length, 2)
})

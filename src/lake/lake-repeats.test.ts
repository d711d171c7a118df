import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { NEVER, readStoredSequences, startSinkOn } from '../../test/lake-harness.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { EPOCH_SEQUENCES, epochOf, type TopicMessage } from '../topic/topic.ts'
import { compactLake } from './compact-lake.ts'

for (const [kind, makeLake] of [
  ['a lake in a folder', makeLocalLake],
  ['a lake in a bucket', makeS3Lake],
] as const) {
  describe(kind, () => repeats(makeLake))
}

/** The same events as a recreated stream delivers them. */
const again = (messages: readonly TopicMessage[], epoch: number): TopicMessage[] =>
  messages.map(({ event }, index) => ({ sequence: epoch * EPOCH_SEQUENCES + index + 1, event }))

function repeats(makeLake: MakeLake): void {
  test('skips events that arrive again under new sequences, in files, in memory and after a restart', async (t) => {
    const { store, connect } = await makeLake(t)
    const written: number[] = []
    const onFileWritten = (rows: number) => void written.push(rows)
    const sink = await startSinkOn(t, store, { onFileWritten })
    const first = makeMessages(5)
    const again = (from: number) => first.map((message, index) => ({ ...message, sequence: from + index }))
    await sink.handle([...first, ...again(6)], NEVER)
    await sink.flush()
    await sink.handle(again(11), NEVER)
    await sink.flush()
    await sink.stop()
    const later = await startSinkOn(t, await connect(), { onFileWritten })
    const fresh = makeMessages(2, 16)
    await later.handle([...again(18), ...fresh.map((message, index) => ({ ...message, sequence: 23 + index }))], NEVER)
    await later.flush()
    assert.deepEqual(await readStoredSequences(store), [1, 2, 3, 4, 5, 23, 24])
    assert.equal((await store.list('orders/')).length, 2)
    assert.deepEqual(written, [5, 2])
  })

  test('stores each event once when a recreated topic delivers it again between new ones, merged or not', async (t) => {
    const { store, connect } = await makeLake(t)
    const sink = await startSinkOn(t, store, { flushRows: 4 })
    const messages = makeMessages(12)
    await sink.handle(messages.slice(0, 6), NEVER)
    await sink.flush()
    const parts = [messages.slice(3, 5), messages.slice(6, 9), messages.slice(0, 3), messages.slice(9), messages.slice(5, 6)]
    const replayed = again(parts.flat(), 2)
    const isNew = new Set(messages.slice(6).map(({ event }) => event.id))
    const added = replayed.filter(({ event }) => isNew.has(event.id)).map(({ sequence }) => sequence)
    const expected = [1, 2, 3, 4, 5, 6, ...added]
    await sink.lastSequence()
    await sink.handle(replayed, NEVER)
    await sink.flush()
    assert.deepEqual(await readStoredSequences(store), expected)
    assert.deepEqual([...new Set(expected.map(epochOf))], [0, 2])
    await compactLake({ store, isWanted: () => true })
    // The successor gets the events again that were skipped after the last file, and skips them as well.
    const successor = await startSinkOn(t, await connect())
    const position = await successor.lastSequence()
    await successor.handle(
      replayed.filter(({ sequence }) => sequence > position),
      NEVER,
    )
    await successor.flush()
    assert.deepEqual(await readStoredSequences(store), expected)
  })
}

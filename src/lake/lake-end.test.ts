import assert from 'node:assert/strict'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { NEVER, readEvents, startSinkOn } from '../../test/lake-harness.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { findLakeEnd } from './lake-end.ts'
import { nameOf } from './lake-names.ts'
import type { LakeSink } from './lake-sink.ts'

const MESSAGES = makeMessages(10)
const IDS = MESSAGES.map(({ event }) => event.id)
const named = (first: number, last: number, level = 0) => nameOf({ ingestDate: '2026-03-01', first, last, level })

/** Delivers what the lake lacks up to a message, into one file. */
async function deliver(sink: LakeSink, upTo: number): Promise<number> {
  const stored = await sink.lastSequence()
  await sink.handle(MESSAGES.slice(stored, upTo), NEVER)
  await sink.flush()
  return stored
}

for (const [kind, makeLake] of [
  ['a lake in a folder', makeLocalLake],
  ['a lake in a bucket', makeS3Lake],
] as const) {
  describe(kind, () => endsWithItsRows(makeLake))
}

function endsWithItsRows(makeLake: MakeLake): void {
  test('ends with the newest file that has rows of its name, and continues after it', async (t) => {
    const { store, connect, pathOf } = await makeLake(t)
    assert.equal(await findLakeEnd(store), 0)
    const sink = await startSinkOn(t, store)
    await deliver(sink, 3)
    await deliver(sink, 5)
    const bytes = await readFile(pathOf(named(4, 5)))
    const far = 9_000_000_000_000
    await writeFile(pathOf(named(far, far + 1)), 'junk\n')
    await writeFile(pathOf(named(far, far + 2)), '')
    await writeFile(pathOf(named(far, far + 3)), bytes.subarray(0, bytes.length - 20))
    await writeFile(pathOf(named(far, far + 4)), Buffer.concat([Buffer.from('PAR1 and nothing that can be read'), Buffer.from('PAR1')]))
    await copyFile(pathOf(named(4, 5)), pathOf(named(far, far + 5)))
    // Its range has the rows, but it was written under another name; and one that supersedes all others by its name.
    await copyFile(pathOf(named(4, 5)), pathOf(named(4, far + 6)))
    await writeFile(pathOf(named(0, far + 9, 9)), '')
    assert.equal(await findLakeEnd(store), 5)
    assert.equal(await deliver(await startSinkOn(t, await connect()), 8), 5)
    assert.equal(await findLakeEnd(store), 8)
  })

  test('writes the events of its newest file again when that cannot be read, also under the same name', async (t) => {
    const { store, connect, pathOf, readObject } = await makeLake(t)
    const sink = await startSinkOn(t, store)
    await deliver(sink, 3)
    await deliver(sink, 5)
    const cut = (await readFile(pathOf(named(4, 5)))).subarray(0, -20)
    await writeFile(pathOf(named(4, 5)), cut)
    const successor = await startSinkOn(t, await connect(), { now: () => new Date('2026-03-01T12:00:01.000Z') })
    assert.equal(await deliver(successor, 5), 3)
    assert.deepEqual(await readEvents(store), IDS.slice(0, 5))
    assert.equal(await readObject(`${named(4, 5)}.corrupt`), cut.toString())
    await deliver(successor, 8)
    await writeFile(pathOf(named(6, 8)), 'cut to nothing')
    // The new file has a wider range, which supersedes the damaged one.
    assert.equal(await deliver(await startSinkOn(t, await connect()), 10), 5)
    assert.deepEqual(await readEvents(store), IDS)
  })
}

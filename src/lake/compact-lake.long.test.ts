import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { readEvents, startSinkOn, withoutTag, writeFiles } from '../../test/lake-harness.ts'
import { deleteUnused, watchSteps } from '../../test/lake-steps.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { type CompactOptions, compactLake, groupFiles } from './compact-lake.ts'
import { expireSnapshots } from './iceberg/expire-snapshots.ts'
import { ORDER_EVENTS } from './iceberg/lake-table.ts'
import { newName } from './lake-names.ts'
import type { LakeStore } from './lake-store.ts'
import { listLake } from './list-files.ts'

const DAY = '2026-03-01'
const NEVER = new AbortController().signal

const compact = (store: LakeStore, options: Partial<CompactOptions> = {}) => compactLake({ store, isWanted: () => true, ...options })

const namesIn = async (store: LakeStore) => (await listLake(store)).map(({ name }) => withoutTag(name))
const range = (first: number, last: number, ingestDate = DAY) => withoutTag(newName('orders', ingestDate, first, last))

for (const [kind, makeLake] of [
  ['a lake in a folder', makeLocalLake],
  ['a lake in a bucket', makeS3Lake],
] as const) {
  describe(kind, () => {
    merging(makeLake)
    together(makeLake)
  })
}

function merging(makeLake: MakeLake): void {
  test('merges the files of each day, keeps every row, and finds nothing to do the second time', async (t) => {
    const { store } = await makeLake(t)
    const events = await writeFiles(t, store, [3, 2, 4])
    await writeFiles(t, store, [2, 2], { from: 10, now: () => new Date('2026-03-02T00:00:00Z') })
    assert.deepEqual(await compact(store, { isWanted: (day) => day === DAY }), { merged: 1, failures: [] })
    assert.deepEqual(await namesIn(store), [range(1, 9), range(10, 11, '2026-03-02'), range(12, 13, '2026-03-02')])
    assert.deepEqual((await readEvents(store)).slice(0, 9), events)
    assert.deepEqual(await compact(store), { merged: 1, failures: [] })
    assert.deepEqual(await compact(store), { merged: 0, failures: [] })
    assert.deepEqual(await namesIn(store), [range(1, 9), range(10, 13, '2026-03-02')])
  })

  test('merges later files, too, and the sink continues after the merge', async (t) => {
    const { store } = await makeLake(t)
    const first = await writeFiles(t, store, [3, 2])
    await compact(store)
    const sink = await startSinkOn(t, store)
    assert.equal(await sink.lastSequence(), 5)
    const messages = makeMessages(2, 6)
    await sink.handle(messages, NEVER)
    await sink.flush()
    assert.deepEqual(await namesIn(store), [range(1, 5), range(6, 7)])
    await compact(store)
    assert.deepEqual(await namesIn(store), [range(1, 7)])
    assert.deepEqual(await readEvents(store), [...first, ...messages.map(({ event }) => event.id)])
  })

  test('skips a day with a corrupt file, names the file, and merges the other days', async (t) => {
    const { store, pathOf, connect } = await makeLake(t)
    await writeFiles(t, store, [3, 2])
    await writeFiles(t, store, [2, 2], { from: 6, now: () => new Date('2026-03-02T00:00:00Z') })
    const corrupt = (await listLake(store))[1]?.name ?? ''
    await writeFile(pathOf(corrupt), 'PAR1 it is not')
    const { merged, failures } = await compact(await connect())
    assert.equal(merged, 1)
    assert.equal(failures.length, 1)
    assert.ok(failures[0]?.startsWith(`${DAY}: `) && String(failures[0]).includes(store.locate(corrupt)), String(failures[0]))
    assert.deepEqual((await namesIn(store)).slice(0, 2), [range(1, 3), range(4, 5)])
  })

  test('an interrupted merge leaves every row in the lake once, whatever the step, and the next run completes it', async (t) => {
    const { store } = await makeLake(t)
    const events = await writeFiles(t, store, [2, 2, 2])
    for (let steps = 0, isDone = false; !isDone; steps++) {
      let left = steps
      const dying = watchSteps(store, (step) => {
        if (/put|delete/.test(step) && left-- <= 0) throw new Error('died')
      })
      isDone = await compact(dying).then(
        ({ failures }) => failures.length === 0,
        () => false,
      )
      assert.deepEqual(await readEvents(store), events, `${steps} steps`)
      assert.ok(steps < 20)
    }
    assert.deepEqual(await namesIn(store), [range(1, 6)])
  })
}

function together(makeLake: MakeLake): void {
  test('readers see every row once while files are added and merged', async (t) => {
    const { store, connect } = await makeLake(t)
    await writeFiles(t, store, [2])
    let [isOver, looks] = [false, 0]
    const reading = (async () => {
      const reader = await connect()
      for (let least = 0; !isOver; looks++) {
        const seen = await readEvents(reader)
        assert.equal(new Set(seen).size, seen.length, 'a row twice')
        assert.ok(seen.length >= least, `${seen.length} rows after ${least}`)
        least = seen.length
      }
    })()
    try {
      for (let round = 0; round < 6; round++) {
        await writeFiles(t, store, [1, 1, 1], { from: 3 + round * 3 })
        await compact(store)
      }
    } finally {
      isOver = true
    }
    await reading
    assert.equal((await readEvents(store)).length, 20)
    assert.ok(looks > 2, `${looks} looks`)
  })

  test('a reader starts again if its files are deleted meanwhile', async (t) => {
    const { store, connect } = await makeLake(t)
    const events = await writeFiles(t, store, [2, 2, 2])
    const other = await connect()
    let reads = 0
    const slow = watchSteps(await connect(), async (step) => {
      if (step !== 'before withCopies' || reads++ > 0) return
      await compact(other)
      const later = new Date(Date.now() + 7_200_000)
      await expireSnapshots(other, ORDER_EVENTS, later, later)
    })
    assert.deepEqual(await readEvents(slow), events)
    assert.equal(reads, 2)
  })

  test('two concurrent merges leave every row once, even if one of them is paused until the sink has written more', async (t) => {
    const { store, connect } = await makeLake(t)
    const events = await writeFiles(t, store, [2, 2, 2])
    const woken = Promise.withResolvers<void>()
    const asleep = Promise.withResolvers<void>()
    const paused = watchSteps(await connect(), async (step) => {
      if (step !== 'before put') return
      asleep.resolve()
      await woken.promise
    })
    const late = compact(paused)
    await asleep.promise
    await Promise.all([compact(store), compact(await connect())])
    events.push(...(await writeFiles(t, store, [2, 1], { from: 7 })))
    await compact(store)
    woken.resolve()
    await late
    assert.deepEqual(await readEvents(store), events)
    assert.equal((await namesIn(store)).length, 1)
  })

  test('writes the merged file again under another name if the first one was deleted as unused', async (t) => {
    const { store, connect } = await makeLake(t)
    const events = await writeFiles(t, store, [2, 2])
    assert.deepEqual(await compact(deleteUnused(await connect())), { merged: 1, failures: [] })
    assert.deepEqual(await readEvents(store), events)
  })

  test('commits a merge while another writer keeps committing', async (t) => {
    const { store, connect } = await makeLake(t)
    const events = await writeFiles(t, store, [2, 2])
    const other = await connect()
    let left = 3
    const beside = watchSteps(store, async (step, name) => {
      if (step === 'before put' && name.endsWith('.metadata.json') && left-- > 0)
        events.push(...(await writeFiles(t, other, [1], { from: events.length + 1 })))
    })
    assert.deepEqual(await compact(beside), { merged: 1, failures: [] })
    assert.deepEqual(await readEvents(store), events)
    assert.equal((await namesIn(store)).length, 4)
  })
}

test('groups neighbouring files up to a size, and ignores single files', () => {
  const sizes = (...files: [first: number, sizeBytes: number][]) =>
    groupFiles(
      files.map(([first, sizeBytes]) => ({ first, sizeBytes })),
      100,
    ).map((group) => group.map(({ first }) => first))
  assert.deepEqual(sizes([5, 40], [1, 40], [3, 40], [7, 90], [9, 10]), [
    [1, 3],
    [7, 9],
  ])
  assert.deepEqual(sizes([1, 100], [3, 100]), [])
  assert.deepEqual(sizes(), [])
  const first = [30, 14, 6, 3, 5].map((sizeBytes, index) => ({ first: index, sizeBytes }))
  const groups = groupFiles(first, 100, true)
  assert.deepEqual(
    groups.map((group) => group.map(({ sizeBytes }) => sizeBytes)),
    [[14, 6, 3, 5]],
  )
})

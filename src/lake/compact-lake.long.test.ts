import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { readEvents, startSinkOn, writeFiles } from '../../test/lake-harness.ts'
import { watchSteps } from '../../test/lake-steps.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { writeOldFile } from '../../test/old-lake-file.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { type CompactOptions, compactLake, groupFiles } from './compact-lake.ts'
import { nameOf, parseName, splitSuperseded } from './lake-names.ts'
import type { LakeStore } from './lake-store.ts'
import { listLake, readLakeFiles } from './list-files.ts'

const DAY = '2026-03-01'
const NEVER = new AbortController().signal

const compact = (store: LakeStore, options: Partial<CompactOptions> = {}) =>
  compactLake({ store, isWanted: () => true, assertAlone: async () => {}, ...options })

const namesIn = async (store: LakeStore) => (await listLake(store)).map(({ name }) => name)
const range = (first: number, last: number, level = 0, ingestDate = DAY) => nameOf({ ingestDate, first, last, level })

for (const [kind, makeLake] of [
  ['a lake in a folder', makeLocalLake],
  ['a lake in a bucket', makeS3Lake],
] as const) {
  describe(kind, () => {
    merging(makeLake)
    superseding(makeLake)
    together(makeLake)
  })
}

function merging(makeLake: MakeLake): void {
  test('merges the files of each day, keeps every row, and finds nothing to do afterwards', async (t) => {
    const { store } = await makeLake(t)
    const events = await writeFiles(t, store, [3, 2, 4])
    await writeFiles(t, store, [2, 2], { from: 10, now: () => new Date('2026-03-02T00:00:00Z') })
    assert.deepEqual(await compact(store, { isWanted: (day) => day === DAY }), { merged: 1, deleted: 3, failures: [] })
    assert.deepEqual(await namesIn(store), [range(1, 9, 1), range(10, 11, 0, '2026-03-02'), range(12, 13, 0, '2026-03-02')])
    assert.deepEqual((await readEvents(store)).slice(0, 9), events)
    assert.deepEqual(await compact(store), { merged: 1, deleted: 2, failures: [] })
    assert.deepEqual(await compact(store), { merged: 0, deleted: 0, failures: [] })
    assert.deepEqual(await namesIn(store), [range(1, 9, 1), range(10, 13, 1, '2026-03-02')])
  })

  test('merges again what came later, and the sink continues after it', async (t) => {
    const { store } = await makeLake(t)
    const first = await writeFiles(t, store, [3, 2])
    await compact(store)
    const sink = await startSinkOn(t, store)
    assert.equal(await sink.lastSequence(), 5)
    const messages = makeMessages(2, 6)
    await sink.handle(messages, NEVER)
    await sink.flush()
    assert.deepEqual(await namesIn(store), [range(1, 5, 1), range(6, 7)])
    await compact(store)
    assert.deepEqual(await namesIn(store), [range(1, 7, 2)])
    assert.deepEqual(await readEvents(store), [...first, ...messages.map(({ event }) => event.id)])
  })

  test('leaves a day with a corrupt file as it is, names the file, and merges the others', async (t) => {
    const { store, pathOf } = await makeLake(t)
    await writeFiles(t, store, [3, 2])
    await writeFiles(t, store, [2, 2], { from: 6, now: () => new Date('2026-03-02T00:00:00Z') })
    const corrupt = range(4, 5)
    await writeFile(pathOf(corrupt), 'PAR1 it is not')
    const { merged, failures } = await compact(store)
    assert.equal(merged, 1)
    assert.equal(failures.length, 1)
    assert.ok(failures[0]?.startsWith(`${DAY}: `) && String(failures[0]).includes(store.locate(corrupt)), String(failures[0]))
    assert.deepEqual((await namesIn(store)).slice(0, 2), [range(1, 3), corrupt])
  })

  test('stops at any step with every row in the lake once, and the next run ends the work', async (t) => {
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
    assert.deepEqual(await namesIn(store), [range(1, 6, 1)])
  })
}

function superseding(makeLake: MakeLake): void {
  for (const [what, name, bytesOf] of [
    ['an empty file', range(0, 5, 9), async () => Buffer.alloc(0)],
    ['a copy of another file', range(1, 6), async (paths: string[]) => readFile(paths[0] ?? '')],
    ['a copy of a file of earlier releases', range(1, 7), async (_: string[], old: string) => readFile(old)],
  ] as const) {
    test(`deletes nothing on the word of a name: ${what} supersedes no other, and is named`, async (t) => {
      const { store, pathOf } = await makeLake(t)
      await writeFiles(t, store, [3, 2])
      const old = await writeOldFile(await mkdtempOf(t), makeMessages(2, 1), DAY)
      const valid = await namesIn(store)
      await writeFile(pathOf(name), await bytesOf(valid.map(pathOf), old))
      const { merged, deleted, failures } = await compact(store)
      assert.deepEqual([merged, deleted, failures.length], [0, 0, 1])
      const [failure = ''] = failures
      assert.ok(failure.includes(store.locate(name)) && failure.includes('storefront lake repair'), failure)
      assert.deepEqual(await namesIn(store), [...valid, name].sort())
    })
  }

  test('keeps the files that a merged file lacks an event of', async (t) => {
    const { store, pathOf } = await makeLake(t)
    await writeFiles(t, store, [3, 2])
    const [, last = ''] = await namesIn(store)
    const bytes = await readFile(pathOf(last))
    await compact(store)
    await writeFile(pathOf(last), bytes)
    // One that the merged file has is deleted; one that it lacks is not.
    assert.deepEqual(await compact(store), { merged: 0, deleted: 1, failures: [] })
    const path = await writeOldFile(await mkdtempOf(t), makeMessages(1, 4), DAY)
    await writeFile(pathOf(range(4, 4)), await readFile(path))
    const { deleted, failures } = await compact(store)
    assert.deepEqual([deleted, failures.length], [0, 1])
    assert.ok(String(failures[0]).includes('lacks 1 event of'), String(failures[0]))
    assert.deepEqual(await namesIn(store), [range(1, 5, 1), range(4, 4)])
  })
}

async function mkdtempOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'storefront-old-file-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

function together(makeLake: MakeLake): void {
  test('readers see every row once while files are merged, added and merged again', async (t) => {
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

  test('a reader that had listed the files before they were merged begins again', async (t) => {
    const { store, connect } = await makeLake(t)
    const events = await writeFiles(t, store, [2, 2, 2])
    const other = await connect()
    let reads = 0
    const slow = watchSteps(await connect(), async (step) => {
      if (step === 'before withCopies' && reads++ === 0) await compact(other)
    })
    assert.deepEqual(await readEvents(slow), events)
    assert.equal(reads, 2)
  })

  test('a listing during which files are merged misses none of them', async (t) => {
    const { store, connect } = await makeLake(t)
    const events = await writeFiles(t, store, [2, 2, 2])
    const other = await connect()
    let listings = 0
    const torn: LakeStore = Object.assign(Object.create(store), {
      ...bindAll(store),
      // A listing in pages can come about like this: its first part from before, the rest from after.
      async list(prefix: string, after?: string) {
        const before = await store.list(prefix, after)
        if (listings++ > 0) return before
        await compact(other)
        const later = await store.list(prefix, after)
        return [...before.slice(0, 1), ...later.filter(({ name }) => name > range(1, 6, 1))]
      },
    })
    assert.deepEqual(await readLakeFiles(torn, 'orders', async (files) => files.map(({ name }) => name)), [range(1, 6, 1)])
    assert.deepEqual(await readEvents(store), events)
  })

  test('two at once, one of them woken after the other has ended and the sink has written on, leave every row once', async (t) => {
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
    assert.deepEqual(splitSuperseded(await listLake(store)).current.length, 1)
    await compact(store)
    assert.equal((await namesIn(store)).length, 1)
  })

  test('does not merge over a file that came into the range meanwhile', async (t) => {
    const { store, connect } = await makeLake(t)
    const first = await writeFiles(t, store, [2])
    const last = await writeFiles(t, store, [2], { from: 5 })
    const other = await connect()
    let between: string[] = []
    const slow = watchSteps(store, async (step) => {
      if (step !== 'after withCopies' || between.length > 0) return
      between = await writeFiles(t, other, [2], { from: 3, isBehind: true })
    })
    await compact(slow)
    assert.deepEqual(await readEvents(store), [...first, ...between, ...last])
    assert.deepEqual(await namesIn(store), [range(1, 6, 1)])
  })

  test('merges nothing when it is no longer alone', async (t) => {
    const { store } = await makeLake(t)
    await writeFiles(t, store, [2, 2])
    const before = await namesIn(store)
    const assertAlone = async () => {
      throw new Error('the lock is lost')
    }
    assert.deepEqual(await compact(store, { assertAlone }), { merged: 0, deleted: 0, failures: [`${DAY}: the lock is lost`] })
    assert.deepEqual(await namesIn(store), before)
  })
}

function bindAll(store: LakeStore) {
  const { locate, put, withCopies } = store
  return { locate: locate.bind(store), put: put.bind(store), withCopies: withCopies.bind(store) }
}

test('groups neighbours up to a size, keeps what overlaps together, and leaves single files alone', () => {
  const file = (first: number, last: number, sizeBytes: number, level = 0) => {
    const name = range(first, last, level)
    return { name, sizeBytes, storedAt: 0, tag: '', ...(parseName(name) ?? assert.fail()) }
  }
  const rangesOf = (files: ReturnType<typeof file>[]) =>
    groupFiles(files, 100).map((group) => group.map(({ first, last }) => `${first}-${last}`))
  assert.deepEqual(rangesOf([file(1, 2, 40), file(3, 4, 40), file(5, 6, 40), file(7, 8, 90), file(9, 9, 10)]), [
    ['1-2', '3-4'],
    ['7-8', '9-9'],
  ])
  assert.deepEqual(rangesOf([file(1, 50, 60), file(10, 60, 30), file(20, 30, 60, 3), file(61, 61, 10)]), [['1-50', '10-60', '20-30']])
  assert.deepEqual(rangesOf([file(1, 2, 100), file(3, 4, 100)]), [])
  assert.deepEqual(rangesOf([]), [])
})

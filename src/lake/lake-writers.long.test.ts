import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { NEVER, readEvents, startSinkOn } from '../../test/lake-harness.ts'
import { deleteUnused, watchSteps } from '../../test/lake-steps.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { readSnapshot } from './iceberg/event-table.ts'
import { MAX_PREVIOUS_METADATA } from './iceberg/table-metadata.ts'
import type { LakeSink } from './lake-sink.ts'

const FILE = /^orders\//
const METADATA = /\/v\d+\.metadata\.json$/
/** Steps at which a writer that has checked its fence can be paused, or die. */
const STEPS = [
  ['before put', FILE],
  ['after put', FILE],
  ['before put', METADATA],
  ['after put', METADATA],
] as const

const SIZES: [string, number][] = [
  ['fewer', 13],
  ['more', 27],
]

const MESSAGES = makeMessages(40)
const IDS = MESSAGES.map(({ event }) => event.id)

/** Takes over as a subscription does, and delivers what the lake lacks up to a message. */
async function deliver(sink: LakeSink, upTo: number): Promise<void> {
  const stored = await sink.lastSequence()
  await sink.handle(
    MESSAGES.slice(0, upTo).filter(({ sequence }) => sequence > stored),
    NEVER,
  )
  await sink.flush()
}

for (const [kind, makeLake] of [
  ['a lake in a folder', makeLocalLake],
  ['a lake in a bucket', makeS3Lake],
] as const) {
  describe(kind, () => fencing(makeLake))
}

function fencing(makeLake: MakeLake): void {
  for (const [step, what] of STEPS) {
    for (const [size, pausedAt] of SIZES) {
      const title = `a writer of ${size} events, paused ${step} of ${what === FILE ? 'its file' : 'its metadata'} and woken, doubles nothing`
      test(title, async (t) => {
        const { store, connect } = await makeLake(t)
        await deliver(await startSinkOn(t, store), 10)
        const [asleep, woken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
        const paused = watchSteps(await connect(), async (at, name) => {
          if (at !== step || !what.test(name)) return
          asleep.resolve()
          await woken.promise
        })
        const late = deliver(await startSinkOn(t, paused), pausedAt)
        await asleep.promise
        const successor = await startSinkOn(t, await connect())
        await deliver(successor, 20)
        await deliver(successor, 30)
        assert.deepEqual(await readEvents(store), IDS.slice(0, 30))
        woken.resolve()
        await late
        await deliver(successor, 40)
        assert.deepEqual(await readEvents(store), IDS)
      })
    }

    test(`a writer that dies ${step} of ${what === FILE ? 'its file' : 'its metadata'} causes neither a gap nor a repeat`, async (t) => {
      const { store, connect } = await makeLake(t)
      await deliver(await startSinkOn(t, store), 10)
      let isDead = false
      const dying = watchSteps(await connect(), (at, name) => {
        // A dead process does not retry.
        isDead ||= at === step && what.test(name)
        if (isDead) throw new Error('died')
      })
      await assert.rejects(deliver(await startSinkOn(t, dying), 20), /died/)
      await deliver(await startSinkOn(t, await connect()), 40)
      assert.deepEqual(await readEvents(store), IDS)
    })
  }

  test('a writer that paused until the version of its metadata was free again stores nothing twice', async (t) => {
    const { store, connect } = await makeLake(t)
    await deliver(await startSinkOn(t, store), 10)
    const [asleep, woken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const paused = watchSteps(await connect(), async (at, name) => {
      if (at !== 'before put' || !METADATA.test(name)) return
      asleep.resolve()
      await woken.promise
    })
    const late = deliver(await startSinkOn(t, paused), 27)
    await asleep.promise
    await deliver(await startSinkOn(t, await connect()), 30)
    const { table, base } = await readSnapshot(store, 'orders')
    // This commit stands for the last of more than a hundred commits.
    assert.ok(base.metadata !== null && (await table.commit(base.state.nextVersion + MAX_PREVIOUS_METADATA + 1, base.metadata)))
    woken.resolve()
    await late
    await deliver(await startSinkOn(t, await connect()), 40)
    assert.deepEqual(await readEvents(store), IDS)
  })

  test('a writer whose file was deleted as unused writes its rows again', async (t) => {
    const { store, connect } = await makeLake(t)
    const paused = deleteUnused(await connect())
    await deliver(await startSinkOn(t, paused), 20)
    assert.deepEqual(await readEvents(store), IDS.slice(0, 20))
  })

  test('two writers that take turns without knowing of each other store nothing twice', async (t) => {
    const { store, connect } = await makeLake(t)
    const sinks = [await startSinkOn(t, store), await startSinkOn(t, await connect())]
    for (let upTo = 4; upTo <= 40; upTo += 4) await Promise.allSettled(sinks.map((sink) => deliver(sink, upTo)))
    await deliver(await startSinkOn(t, await connect()), 40)
    assert.deepEqual(await readEvents(store), IDS)
  })
}

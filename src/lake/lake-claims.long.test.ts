import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { pino } from 'pino'
import { NEVER, readEvents, startSinkOn } from '../../test/lake-harness.ts'
import { watchSteps } from '../../test/lake-steps.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import type { LakeSink } from './lake-sink.ts'

const CLAIM = /^\.pending\//
const FILE = /^orders\//
/** Steps at which a writer that has checked its fence can be paused, or die. */
const STEPS = [
  ['before put', CLAIM],
  ['after put', CLAIM],
  ['before put', FILE],
  ['after put', FILE],
  ['before delete', CLAIM],
  ['after delete', CLAIM],
] as const

const SIZES: [string, number][] = [
  ['fewer', 13],
  ['more', 27],
]

const DAMAGES: [string, (bytes: Buffer) => Buffer][] = [
  ['empty', () => Buffer.alloc(0)],
  ['no Parquet file', () => Buffer.from('not a lake file')],
  ['cut off', (bytes) => bytes.subarray(0, bytes.length - 20)],
  ['changed by a bit', (bytes) => Buffer.from(bytes).fill((bytes[40] ?? 0) ^ 1, 40, 41)],
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
    // Both sizes where nothing is decided yet; later the file of the paused one is the file of all.
    for (const [size, pausedAt] of what === CLAIM && step.endsWith('put') ? SIZES : SIZES.slice(1)) {
      const title = `a writer of ${size} events, paused ${step} of ${what === CLAIM ? 'its claim' : 'its file'} and woken, doubles nothing`
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
        assert.deepEqual(await store.list('.pending/'), [])
      })
    }

    test(`a writer that dies ${step} of ${what === CLAIM ? 'its claim' : 'its file'} leaves nothing in doubt`, async (t) => {
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
      assert.deepEqual(await store.list('.pending/'), [])
    })
  }

  for (const [damage, spoil] of DAMAGES) {
    test(`a file that was decided on and is ${damage} is quarantined, and its events are in the lake once`, async (t) => {
      const { store, connect } = await makeLake(t)
      await deliver(await startSinkOn(t, store), 10)
      let isDead = false
      const dying = watchSteps(await connect(), (at, name) => {
        isDead ||= at === 'after put' && CLAIM.test(name)
        if (isDead) throw new Error('died')
      })
      await assert.rejects(deliver(await startSinkOn(t, dying), 20), /died/)
      const claim = (await store.list('.pending/'))[0] ?? assert.fail('no claim')
      const { name } = claim
      await store.withWorkspace(async (folder) => {
        const path = join(folder, 'spoilt')
        await store.withCopies([claim], async ([from = '']) => writeFile(path, spoil(await readFile(from))))
        await store.delete(name)
        await store.put(name, path)
      })
      const lines: { path?: string }[] = []
      const logger = pino({ level: 'error' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
      const successor = await startSinkOn(t, await connect(), { logger })
      await deliver(successor, 20)
      await deliver(successor, 40)
      assert.deepEqual(await readEvents(store), IDS)
      assert.deepEqual(await store.list('.pending/'), [])
      assert.equal(lines.length, 1)
      assert.match(lines[0]?.path ?? '', /\.pending\/after-\d+\.parquet\.corrupt/)
    })
  }

  test('two writers that take turns without ever being told so double nothing', async (t) => {
    const { store, connect } = await makeLake(t)
    const sinks = [await startSinkOn(t, store), await startSinkOn(t, await connect())]
    for (let upTo = 4; upTo <= 40; upTo += 4) await Promise.allSettled(sinks.map((sink) => deliver(sink, upTo)))
    await deliver(await startSinkOn(t, await connect()), 40)
    assert.deepEqual(await readEvents(store), IDS)
  })
}

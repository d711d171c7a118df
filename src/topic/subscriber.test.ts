import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase, type TestDatabase } from '../../test/database.ts'
import { eventually, promptly } from '../../test/eventually.ts'
import { silent } from '../../test/stream-harness.ts'
import { endSubscriberConnection, idsOf, makeOutgoing, Recording, subscribe } from '../../test/topic-harness.ts'
import { subscriberLockKey } from './lock-session.ts'
import { ORDERS } from './partitions.ts'
import { createPostgresTopic } from './postgres/postgres-topic.ts'
import type { Subscription } from './topic.ts'

const PROCESS = fileURLToPath(new URL('../../test/fenced-subscriber-process.ts', import.meta.url))
const TAKEOVER_MS = 10_000

interface SubscriberProcess {
  child: ChildProcess
  lines: string[]
  until(line: string): Promise<unknown>
}

async function startProcess(t: TestContext, db: TestDatabase, who: string, names: readonly string[]): Promise<SubscriberProcess> {
  const child = spawn(process.execPath, [PROCESS, db.url, who, ...names], { stdio: ['pipe', 'pipe', 'inherit'] })
  onCleanup(t, async () => {
    const ended = once(child, 'exit')
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await ended
  })
  const lines: string[] = []
  createInterface(child.stdout).on('line', (line) => lines.push(line))
  return { child, lines, until: (line) => eventually(async () => lines.includes(line), { what: `${who}: ${line}` }) }
}

async function makeEffects(t: TestContext) {
  const db = await createTestDatabase(t)
  await db.pool.query('create table effects (event_id text, subscriber text, writer text)')
  const read = async (subscriber: string) => {
    const { rows } = await db.pool.query('select event_id, writer from effects where subscriber = $1', [subscriber])
    return rows.map(({ event_id, writer }) => `${writer} ${event_id}`)
  }
  return { db, topic: createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent }), read }
}

test('another process takes over from a killed process within ten seconds', async (t) => {
  const { db, topic, read } = await makeEffects(t)
  const sent = makeOutgoing(2)
  await topic.publish(sent)
  const killed = await startProcess(t, db, 'killed', ['outside'])
  await killed.until('outside waits')
  const next = await startProcess(t, db, 'next', ['outside'])
  next.child.stdin?.write('go\n')
  killed.child.kill('SIGKILL')
  await promptly(db.pool, async () => next.lines.includes('outside wrote'), { withinMs: TAKEOVER_MS, what: 'the takeover' })
  assert.deepEqual(
    await read('outside'),
    idsOf(sent).map((id) => `next ${id}`),
  )
})

test('another process takes over from a paused process, which writes nothing when it continues', async (t) => {
  const names = ['outside', 'inside']
  const { db, topic, read } = await makeEffects(t)
  const sent = makeOutgoing(2)
  await topic.publish(sent)
  const paused = await startProcess(t, db, 'paused', names)
  for (const name of names) await paused.until(`${name} waits`)
  const next = await startProcess(t, db, 'next', names)
  next.child.stdin?.write('go\n')
  paused.child.kill('SIGSTOP')
  const hasTakenOver = async () => names.every((name) => next.lines.includes(`${name} wrote`))
  await promptly(db.pool, hasTakenOver, { withinMs: TAKEOVER_MS, what: 'the takeover' })
  paused.child.kill('SIGCONT')
  paused.child.stdin?.write('go\n')
  await paused.until('outside FencedOut')
  await eventually(async () => paused.lines.some((line) => /^inside (?!waits)/.test(line)))
  assert.ok(!paused.lines.includes('inside wrote'))
  for (const name of names) {
    assert.deepEqual(
      await read(name),
      idsOf(sent).map((id) => `next ${id}`),
    )
  }
})

test('the subscribers of a process share one session, which lasts as long as any of them', async (t) => {
  const { db, topic } = await makeEffects(t)
  const sessions = async () => {
    const { rows } = await db.pool.query(
      `select (select count(*) from pg_locks where locktype = 'advisory' and pg_locks.pid = session.pid) as locks
      from pg_stat_activity as session where application_name = 'storefront-subscribers' and datname = current_database()`,
    )
    return rows.map(({ locks }) => Number(locks))
  }
  const seen = new Map(['first', 'second'].map((name) => [name, new Recording()]))
  const subscriptions = await Promise.all([...seen].map(([name, { handle }]) => subscribe(t, topic, name, handle)))
  await eventually(async () => subscriptions.every(({ state }) => state === 'active'))
  assert.deepEqual(await sessions(), [2])
  await subscriptions[0]?.stop()
  assert.deepEqual(await sessions(), [1], 'the lock of the one that stopped is free')
  await topic.publish(makeOutgoing(1))
  await seen.get('second')?.until(1)
  await endSubscriberConnection(db, 'second')
  await topic.publish(makeOutgoing(1, 2))
  await seen.get('second')?.until(2)
  await subscriptions[1]?.stop()
  await eventually(async () => (await sessions()).length === 0)
})

test('a subscriber that another process has taken over is on standby, and never counts as failing', async (t) => {
  const db = await createTestDatabase(t)
  const states: string[] = []
  const logger = pino({ level: 'warn' }, { write: () => void states.push(subscription.state) })
  const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger })
  await topic.publish(makeOutgoing(1))
  const other = await db.pool.connect()
  onCleanup(t, () => other.release(true))
  let taken: Promise<unknown> = Promise.resolve()
  const subscription: Subscription = topic.subscribe('fenced', async (_messages, _signal, fence) => {
    // A process that found the lock free waits for it here, and has it before this one retries.
    taken = other.query('select pg_advisory_lock(hashtextextended($1, 0))', [subscriberLockKey('fenced')])
    await db.pool.query('update topic_subscribers set fence = fence + 1 where name = $1', ['fenced'])
    await fence?.check()
  })
  onCleanup(t, () => subscription.stop())
  await subscription.start()
  await eventually(async () => states.length > 0, { what: 'the takeover in the log' })
  await taken
  assert.deepEqual(states, ['standby'])
  assert.deepEqual([subscription.state, subscription.failure], ['standby', null])
})

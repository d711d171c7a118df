import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase } from '../../test/database.ts'
import { openDeadWire } from '../../test/dead-wire.ts'
import { eventually, promptly, stopClock } from '../../test/eventually.ts'
import { makeCopies } from '../../test/fresh-copies.ts'
import { type CopyDefinition, FreshCopies, type FreshCopy, type Reading } from './fresh-copies.ts'
import { connectClient, type Queryable } from './pool.ts'
import { sql } from './sql.ts'

const logger = pino({ level: 'silent' })

interface Word {
  word: string
}

/** A database with one word, and a pool that counts its queries and can be made unavailable. */
async function makeWords(t: TestContext) {
  const database = await createTestDatabase(t)
  const { pool } = database
  await pool.query(`create table words (word text not null); insert into words values ('first')`)
  const asked = { questions: 0, isAway: false }
  const askedPool: Queryable = {
    query: ((...args: Parameters<typeof pool.query>) => {
      asked.questions++
      return asked.isAway ? Promise.reject(new Error('the database is unavailable')) : pool.query(...args)
    }) as never,
  }
  const change = (word: string) => pool.query('update words set word = $1', [word])
  return { database, pool, asked, askedPool, change }
}

/** The words that a copy has learned, the newest last. */
function addWord(copies: FreshCopies, definition: Partial<CopyDefinition<Word>> = {}) {
  const learned: ({ word: string } & Reading)[] = []
  const copy: FreshCopy<Word> = copies.add<Word>({
    name: 'word',
    columns: ['word'],
    read: () => sql`select word from words`,
    maxAgeMs: 1_000,
    learn: ({ word }, reading) => void learned.push({ word, ...reading }),
    ...definition,
  })
  return { copy, learned, newest: () => learned.at(-1)?.word }
}

test("a change is known within the copy's maximum age, without a separate query", async (t) => {
  const { database, pool, asked, askedPool, change } = await makeWords(t)
  const connect = (signal: AbortSignal) => connectClient(database.url, 'copies', signal)
  const copies = new FreshCopies({ pool: askedPool, connect, logger })
  t.after(() => copies.stop())
  const { copy, newest } = addWord(copies)
  assert.equal(copy.isFresh, false)
  await copies.start()
  assert.deepEqual([newest(), copy.isFresh], ['first', true])
  await change('second')
  await promptly(pool, async () => newest() === 'second', { withinMs: 1_000 })
  await copy.ensureFresh()
  assert.equal(asked.questions, 0)
})

test('one statement on one connection reads every copy', async (t) => {
  const { database } = await makeWords(t)
  const { copies, gate, poll } = makeCopies(t, database)
  const seen: string[] = []
  for (const name of ['a', 'b', 'c'])
    copies.add<{ at: Date; xid: string }>({
      name,
      columns: ['at', 'xid'],
      maxAgeMs: 1_000,
      read: (since) => sql`select statement_timestamp() as at, ${since} || '' as xid`,
      learn: ({ at, xid }) => void seen.push(`${at.toISOString()} ${xid}`),
    })
  await copies.start()
  await poll()
  await copies.stop()
  assert.equal(seen.length % 3, 0)
  for (let i = 0; i < seen.length; i += 3)
    assert.deepEqual(new Set(seen.slice(i, i + 3)).size, 1, 'at the same time, since the same transaction')
  assert.equal(gate.connections, 1)
})

test('used copies are polled twice in their maximum age, and others about once', async (t) => {
  const { database, pool } = await makeWords(t)
  const connect = (signal: AbortSignal) => connectClient(database.url, 'copies', signal)
  const copies = new FreshCopies({ pool, connect, logger })
  onCleanup(t, () => copies.stop())
  const maxAgeMs = 400
  const { copy, learned } = addWord(copies, { maxAgeMs })
  const leastPause = async (polls: number) => {
    const from = learned.length
    await eventually(async () => learned.length >= from + polls)
    const began = learned.slice(from).map(({ beganAt }) => beganAt)
    return Math.min(...began.slice(1).map((at, index) => at - (began[index] ?? 0)))
  }
  await copies.start()
  assert.ok((await leastPause(4)) > maxAgeMs * 0.8)
  const reader = setInterval(() => copy.isFresh, 20)
  onCleanup(t, () => clearInterval(reader))
  assert.ok((await leastPause(6)) < maxAgeMs * 0.7)
})

test('a notification starts a poll long before the next one is due', async (t) => {
  const { database, pool, change } = await makeWords(t)
  const connect = (signal: AbortSignal) => connectClient(database.url, 'copies', signal)
  const copies = new FreshCopies({ pool, connect, logger })
  t.after(() => copies.stop())
  const { newest, learned } = addWord(copies, { maxAgeMs: 3_600_000, channel: 'words' })
  await copies.start()
  await change('second')
  assert.equal(learned.length, 1)
  await pool.query('notify words')
  await promptly(pool, async () => newest() === 'second', { withinMs: 1_000 })
})

test('without polls a copy is fresh until its maximum age, after which its users share a query or its error', async (t) => {
  const { database, asked, askedPool, change } = await makeWords(t)
  const { copies, gate, cut } = makeCopies(t, database, { askedPool })
  const { copy, newest, learned } = addWord(copies, { maxAgeMs: 300 })
  await copies.start()
  gate.isOpen = false
  await cut()
  await eventually(async () => !copy.isFresh)
  assert.equal(asked.questions, 0)
  await change('second')
  await Promise.all(Array.from({ length: 20 }, () => copy.ensureFresh()))
  assert.deepEqual([newest(), asked.questions], ['second', 1])
  asked.isAway = true
  await eventually(async () => !copy.isFresh)
  await assert.rejects(copy.ensureFresh(), /unavailable/)
  assert.equal(copy.isFresh, false)

  gate.isOpen = true
  await eventually(async () => copy.isFresh)
  await copy.ensureFresh()
  assert.equal(learned.filter(({ isWhole }) => isWhole).length, 3, 'the first poll, the question, and the first poll of the new connection')
  assert.equal(learned.at(-1)?.word, 'second')
})

test('a later poll reads what has committed since the previous one, even if the transaction began earlier', async (t) => {
  const { database, pool } = await makeWords(t)
  const { copies, poll } = makeCopies(t, database)
  await pool.query('create table news (id int, transaction_id xid8 not null default pg_current_xact_id())')
  const known = new Set<number>()
  copies.add<{ ids: number[] }>({
    name: 'news',
    columns: ['ids'],
    maxAgeMs: 1_000,
    read: (since) => sql`select array(select id from news where transaction_id >= ${since}::xid8) as ids`,
    learn: ({ ids }) => {
      for (const id of ids) known.add(id)
    },
  })
  await copies.start()
  const slow = await pool.connect()
  await slow.query('begin')
  await slow.query('insert into news values (1)')
  await pool.query('insert into news values (2)')
  await poll()
  await poll()
  assert.deepEqual([...known], [2])
  await slow.query('commit')
  slow.release()
  await poll()
  await poll()
  assert.deepEqual([...known], [2, 1])
})

test('a refresh reads after its change, and an older reading does not undo it', async (t) => {
  const { database, change } = await makeWords(t)
  const { copies, gate } = makeCopies(t, database)
  const { copy, newest, learned } = addWord(copies)
  await copies.start()
  const held = Promise.withResolvers<void>()
  gate.held = held.promise
  const polled = copy.nextPoll()
  await eventually(async () => gate.holding > 0)
  const polls = learned.length
  await change('second')
  await Promise.all([copy.refresh(), copy.refresh()])
  assert.deepEqual([newest(), learned.length], ['second', polls + 1])
  held.resolve()
  await polled
  assert.equal(newest(), 'second')
  await copy.nextPoll()
  assert.equal(newest(), 'second')
})

test('a change that cannot be read back does not throw: the copy is not fresh, even after a poll that began earlier', async (t) => {
  const { database, asked, askedPool, change } = await makeWords(t)
  const { copies, gate } = makeCopies(t, database, { askedPool })
  const { copy, newest } = addWord(copies)
  await copies.start()
  const held = Promise.withResolvers<void>()
  gate.held = held.promise
  const polled = copy.nextPoll()
  await eventually(async () => gate.holding > 0)
  asked.isAway = true
  await change('second')
  await copy.refresh()
  assert.equal(copy.isFresh, false)
  await assert.rejects(copy.ensureFresh())
  held.resolve()
  await polled
  assert.deepEqual([newest(), copy.isFresh], ['first', false])
  await copy.nextPoll()
  assert.deepEqual([newest(), copy.isFresh], ['second', true])
})

test('the next poll rereads what only an ignored poll has read', async (t) => {
  const { database, pool, asked, askedPool } = await makeWords(t)
  await pool.query('create table news (id integer, transaction_id xid8 default pg_current_xact_id())')
  const { copies, gate } = makeCopies(t, database, { askedPool })
  const known = new Set<number>()
  const copy = copies.add<{ ids: number[] }>({
    name: 'news',
    columns: ['ids'],
    maxAgeMs: 1_000,
    read: (since) => sql`select array(select id from news where transaction_id >= ${since}::xid8) as ids`,
    learn({ ids }, { isWhole }) {
      if (isWhole) known.clear()
      for (const id of ids) known.add(id)
    },
  })
  await copies.start()
  const [without, withIt] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  gate.held = without.promise
  await eventually(async () => gate.holding > 0)
  await pool.query('insert into news values (1)')
  gate.held = withIt.promise
  without.resolve()
  await eventually(async () => gate.holding > 1)
  asked.isAway = true
  await copy.refresh()
  asked.isAway = false
  const next = copy.nextPoll()
  withIt.resolve()
  await next
  assert.deepEqual([[...known], copy.isFresh], [[1], true])
})

test('a query that began too long ago satisfies only the callers that waited for it', async (t) => {
  const { database, pool, change } = await makeWords(t)
  const [answered, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const askedPool: Queryable = {
    query: (async (...args: Parameters<typeof pool.query>) => {
      const answer = await pool.query(...args)
      answered.resolve()
      await held.promise
      return answer
    }) as never,
  }
  const { copy, newest } = addWord(makeCopies(t, database, { askedPool }).copies)
  const continueClock = stopClock(t)
  const early = copy.ensureFresh()
  await answered.promise
  await change('second')
  continueClock()
  const late = copy.ensureFresh()
  held.resolve()
  await Promise.all([early, late])
  assert.equal(newest(), 'second')
})

test('stop waits for learning in progress, and polls do not', async (t) => {
  const { database, change } = await makeWords(t)
  const { copies, poll } = makeCopies(t, database)
  const loading = Promise.withResolvers<void>()
  let isLoaded = false
  const { copy } = addWord(copies, {
    learn: async ({ word }) => {
      if (word === 'first') return
      await loading.promise
      isLoaded = true
      throw new Error('reported, and no failure of the polls')
    },
  })
  await copies.start()
  await change('second')
  await poll()
  await poll()
  assert.deepEqual([copy.isFresh, isLoaded], [true, false])
  const stopped = copies.stop()
  loading.resolve()
  await stopped
  assert.equal(isLoaded, true)
})

test('polls of a locked table leave no sessions at the server, and copies are fresh again after the lock', async (t) => {
  const { database, pool, change } = await makeWords(t)
  const { copies, gate, poll } = makeCopies(t, database)
  const { copy, newest } = addWord(copies)
  await copies.start()
  const locker = await pool.connect()
  await locker.query('begin; lock table words')
  try {
    await eventually(async () => gate.connections > 2, { timeoutMs: 30_000 })
    const { rows } = await pool.query(
      `select count(*)::int as sessions from pg_stat_activity where application_name = 'copies-under-test' and datname = current_database()`,
    )
    assert.ok(rows[0].sessions <= 2, `${rows[0].sessions} sessions`)
  } finally {
    locker.release(true)
  }
  await change('second')
  await poll()
  await eventually(async () => copy.isFresh)
  assert.equal(newest(), 'second')
})

test('starts during a database outage, and stops before start, twice, and during a poll without an answer', async (t) => {
  const { database } = await makeWords(t)
  const before = makeCopies(t, database)
  await before.copies.stop()
  await before.copies.start()
  assert.equal(before.gate.connections, 0)

  const away = makeCopies(t, database)
  away.gate.isOpen = false
  await away.copies.start()
  await Promise.all([away.copies.stop(), away.copies.stop()])

  const wire = await openDeadWire(t, database.url)
  const { copies } = makeCopies(t, { url: wire.url, pool: database.pool })
  await copies.start()
  wire.die()
  await promptly(database.pool, () => copies.stop().then(() => true), { withinMs: 1_000, what: 'the stop' })

  const empty = new FreshCopies({ pool: database.pool, connect: () => Promise.reject(new Error('not needed')), logger })
  await empty.start()
  await empty.stop()
})

test('ages are measured by the monotonic clock', async (t) => {
  const { database } = await makeWords(t)
  const { copies } = makeCopies(t, database)
  const { copy } = addWord(copies)
  await copies.start()
  stopClock(t)
  t.mock.method(Date, 'now', () => 0)
  assert.equal(copy.isFresh, true)
})

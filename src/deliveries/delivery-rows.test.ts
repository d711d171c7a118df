import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase } from '../../test/database.ts'
import { sql } from '../db/sql.ts'
import type { DeliveryKind } from './delivery-kind.ts'
import {
  correctTimes,
  endPauses,
  type HeldRow,
  recordOutcomes,
  releaseDeliveries,
  renewLeases,
  requeueDeliveries,
  takeDeliveries,
} from './delivery-rows.ts'

const LETTERS: DeliveryKind = {
  name: 'letters',
  table: sql`letters`,
  key: ['street', 'house'],
  receiver: { column: sql`street`, type: 'text' },
  columns: [],
  firstPauseSeconds: 100,
  longestPauseSeconds: 3_600,
  isKept: true,
  onDelivered: [sql`status = 'posted'`, sql`posted_at = now()`],
  onRequeued: [sql`posted_at = null`],
}

interface Letter {
  street: string
  house: string
}

async function startLetters(t: TestContext, kind = LETTERS) {
  const { pool } = await createTestDatabase(t)
  await pool.query(
    `create table letters (
      street text, house text, status text default 'queued', attempts integer default 0, last_error text, queued_at timestamptz default now(),
      posted_at timestamptz, due_at timestamptz default now(), due_set_at timestamptz default now(), lease uuid, leased_until timestamptz, is_pause_asked boolean default false,
      primary key (street, house)
    )`,
  )
  await pool.query(
    `insert into letters (street, house, due_at) values ('Elm', '1', now() - interval '3 s'), ('Elm', '2', now() - interval '2 s'),
      ('Elm', '3', now() - interval '1 s'), ('Oak', '1', now()), ('Oak', '2', now() + interval '1 hour')`,
  )
  const take = async (wanted: Record<string, number>): Promise<(Letter & HeldRow & { attempts: number })[]> => {
    const lease = randomUUID()
    const rows = await takeDeliveries<Letter>(pool, kind, new Map(Object.entries(wanted)), lease)
    return rows.map((row) => ({ ...row, lease }))
  }
  return {
    pool,
    take,
    async takeOne() {
      return (await take({ Oak: 1 }))[0] ?? assert.fail('nothing is due')
    },
    async letter({ street, house }: Letter) {
      const { rows } = await pool.query(
        sql`select status, attempts, last_error, posted_at is not null as is_posted, lease is not null as is_leased,
          round(extract(epoch from due_at - now()))::integer as seconds
        from letters where street = ${street} and house = ${house}`,
      )
      return rows[0] === undefined ? null : Object.values(rows[0])
    },
  }
}

const houses = (letters: readonly Letter[]) => letters.map(({ street, house }) => `${street} ${house}`).toSorted()

test('takes the oldest and the newest due deliveries, at most a number for each receiver, and takes none twice', async (t) => {
  const { take } = await startLetters(t)
  assert.deepEqual(houses(await take({ Elm: 2, Oak: 5, Ash: 1 })), ['Elm 1', 'Elm 3', 'Oak 1'])
  assert.deepEqual(houses(await take({ Elm: 2, Oak: 5 })), ['Elm 2'])
  assert.deepEqual(await take({ Elm: 2, Oak: 5 }), [])
})

test('skips rows that another transaction has locked', async (t) => {
  const { pool, take } = await startLetters(t)
  const other = await pool.connect()
  onCleanup(t, () => other.release(true))
  await other.query(`begin; select from letters where house = '1' for update`)
  assert.deepEqual(houses(await take({ Elm: 2, Oak: 2 })), ['Elm 2', 'Elm 3'])
})

test('concurrent takes share the rows', async (t) => {
  const { take } = await startLetters(t)
  const taken = await Promise.all([1, 2, 3, 4].map(() => take({ Elm: 2, Oak: 2 })))
  const rest = await take({ Elm: 3, Oak: 2 })
  assert.deepEqual(houses([...taken.flat(), ...rest]), ['Elm 1', 'Elm 2', 'Elm 3', 'Oak 1'])
})

test('stores each outcome in its own row', async (t) => {
  const { pool, take, letter } = await startLetters(t)
  const [first, second, third, oak] = (await take({ Elm: 3, Oak: 1 })).toSorted((a, b) =>
    a.street + a.house < b.street + b.house ? -1 : 1,
  )
  assert.ok(first && second && third && oak)
  await recordOutcomes(pool, LETTERS, [
    { row: first, outcome: { to: 'delivered' } },
    { row: second, outcome: { to: 'failed', reason: 'moved away' } },
    { row: third, outcome: { to: 'retry', reason: 'on holiday', seconds: 60 } },
    { row: oak, outcome: { to: 'retry', reason: 'no key', seconds: 30, isAttempt: false } },
  ])
  const delivered = await letter(first)
  assert.deepEqual(delivered?.slice(0, 5), ['posted', 1, null, true, false])
  assert.deepEqual((await letter(second))?.slice(0, 5), ['failed', 1, 'moved away', false, false])
  assert.deepEqual(await letter(third), ['queued', 1, 'on holiday', false, false, 60])
  assert.deepEqual(await letter(oak), ['queued', 0, 'no key', false, false, 30])
})

test('a process that has lost its lease can only record a success', async (t) => {
  const { pool, takeOne, letter } = await startLetters(t)
  const lost = await takeOne()
  await pool.query(`update letters set leased_until = now() where house = '1'`)
  const held = await takeOne()
  assert.equal(held.attempts, 2)
  for (const outcome of [{ to: 'failed', reason: 'late' } as const, { to: 'retry', reason: 'late' } as const])
    await recordOutcomes(pool, LETTERS, [{ row: lost, outcome }])
  await renewLeases(pool, LETTERS, [lost])
  await releaseDeliveries(pool, LETTERS, [lost], { isAttempt: true })
  assert.deepEqual((await letter(held))?.slice(0, 5), ['queued', 2, null, false, true])
  await recordOutcomes(pool, LETTERS, [{ row: lost, outcome: { to: 'delivered' } }])
  assert.deepEqual((await letter(held))?.slice(0, 5), ['posted', 2, null, true, false])
  await recordOutcomes(pool, LETTERS, [{ row: held, outcome: { to: 'failed', reason: 'late' } }])
  assert.equal((await letter(held))?.[0], 'posted')
})

test('deletes the row of a finished delivery if its kind keeps none, but no row that another process holds', async (t) => {
  const kind = { ...LETTERS, isKept: false }
  const { pool, take, takeOne, letter } = await startLetters(t, kind)
  const lost = await takeOne()
  await pool.query(`update letters set leased_until = now() where street = 'Oak'`)
  const held = await takeOne()
  await recordOutcomes(pool, kind, [{ row: lost, outcome: { to: 'failed', reason: 'late' } }])
  assert.ok((await letter(held)) !== null)
  const [elm] = await take({ Elm: 1 })
  assert.ok(elm)
  await recordOutcomes(pool, kind, [
    { row: held, outcome: { to: 'failed', reason: 'moved away' } },
    { row: elm, outcome: { to: 'delivered' } },
  ])
  assert.deepEqual([await letter(held), await letter(elm)], [null, null])
})

test('a requeued delivery is like a new one', async (t) => {
  const { pool, takeOne, letter } = await startLetters(t)
  const row = await takeOne()
  await recordOutcomes(pool, LETTERS, [{ row, outcome: { to: 'failed', reason: 'moved away' } }])
  const requeue = () => requeueDeliveries(pool, LETTERS, { which: sql`status = 'failed'` })
  assert.deepEqual((await Promise.all([requeue(), requeue()])).toSorted(), [0, 1])
  assert.deepEqual(await letter(row), ['queued', 0, 'moved away', false, false, 0])
  assert.equal((await takeOne()).attempts, 1)
})

test('requeues any number of deliveries, and none if the step after it fails', async (t) => {
  const { pool } = await startLetters(t)
  await pool.query(`insert into letters (street, house, status) select 'Fir', n::text, 'failed' from generate_series(1, 1500) as n`)
  const which = sql`status = 'failed'`
  await assert.rejects(requeueDeliveries(pool, LETTERS, { which, onRequeued: () => Promise.reject(new Error('no plan')) }), /no plan/)
  assert.equal(await requeueDeliveries(pool, LETTERS, { which }), 1_500)
})

test("deliveries from a time when the database's clock was ahead wait no longer than others", async (t) => {
  const { pool, take, letter } = await startLetters(t)
  const ahead = `interval '25 hours'`
  const rows: Record<string, string> = {
    queued: `due_at = now() + ${ahead}, due_set_at = now() + ${ahead}`,
    retried: `due_at = now() + ${ahead} + interval '1 minute', due_set_at = now() + ${ahead}`,
    // This delivery is due at a time of its own, like a mail that waits for its hour.
    timed: `due_at = now() + interval '2 hours', due_set_at = now() + ${ahead}`,
    long: `due_at = now() + ${ahead}`,
    past: `due_at = now() - interval '1 minute', due_set_at = now() + ${ahead}`,
  }
  for (const [street, assignments] of Object.entries(rows)) {
    await pool.query('insert into letters (street, house) values ($1, $1)', [street])
    await pool.query(`update letters set ${assignments} where street = $1`, [street])
  }
  await pool.query(`insert into letters (street, house, lease, leased_until) values ('dead', 'dead', gen_random_uuid(), now() + ${ahead})`)
  assert.equal(await correctTimes(pool, LETTERS), 4)
  const seconds: Record<string, unknown> = {}
  for (const street of Object.keys(rows)) seconds[street] = (await letter({ street, house: street }))?.at(-1)
  assert.deepEqual(seconds, { queued: 0, retried: 60, timed: 7_200, long: 25 * 3_600, past: -60 })
  assert.deepEqual(houses(await take({ dead: 1 })), ['dead dead'], 'a lease that ends later than any can has ended')
  assert.equal(await correctTimes(pool, LETTERS), 0)
})

test('no statement waits for a row that another transaction has locked, and the other rows are stored or renewed', async (t) => {
  const { pool, take, letter } = await startLetters(t)
  const rows = (await take({ Elm: 3, Oak: 1 })).toSorted((a, b) => (a.street + a.house < b.street + b.house ? -1 : 1))
  const [locked, delivered, retried, oak] = rows
  assert.ok(locked && delivered && retried && oak)
  const other = await pool.connect()
  onCleanup(t, () => other.release(true))
  await other.query(`begin; select from letters where street = 'Elm' and house = '1' for update`)
  assert.deepEqual(await renewLeases(pool, LETTERS, rows), new Set([delivered, retried, oak]))
  const ended = [
    { row: locked, outcome: { to: 'delivered' } as const },
    { row: delivered, outcome: { to: 'delivered' } as const },
    { row: retried, outcome: { to: 'retry', reason: 'on holiday' } as const },
  ]
  assert.deepEqual(await recordOutcomes(pool, LETTERS, ended), new Set(ended.slice(0, 1)))
  assert.deepEqual(await releaseDeliveries(pool, LETTERS, [locked, oak], { isAttempt: false }), new Set([locked]))
  assert.deepEqual([(await letter(delivered))?.[0], (await letter(retried))?.[2], (await letter(oak))?.[1]], ['posted', 'on holiday', 0])
  await other.query('commit')
  assert.deepEqual(await recordOutcomes(pool, LETTERS, ended.slice(0, 1)), new Set())
  assert.equal((await letter(locked))?.[0], 'posted')
})

test('a pause that the receiver asked for outlasts an outage, and other pauses end with it', async (t) => {
  const { pool, take, letter } = await startLetters(t)
  const [first, second] = await take({ Elm: 2 })
  assert.ok(first && second)
  await recordOutcomes(pool, LETTERS, [
    { row: first, outcome: { to: 'retry', reason: 'busy', seconds: 100 } },
    { row: second, outcome: { to: 'retry', reason: 'away' } },
  ])
  const outages = [['Elm', 3_600_000] as const, [null, Number.POSITIVE_INFINITY] as const]
  for (const outage of outages) {
    await endPauses(pool, LETTERS, new Map([outage]))
    assert.deepEqual([(await letter(first))?.at(-1), (await letter(second))?.at(-1)], [100, 0])
  }
})

test('the statements for corrections and for recoveries read only the rows that they change', async (t) => {
  const { pool } = await startLetters(t)
  await pool.query(
    `create index on letters (street, due_at) where status = 'queued'; create index on letters (due_set_at) where status = 'queued';
    insert into letters (street, house, attempts, due_at)
      select 'Fir ' || n % 100, n::text, 1, now() + interval '1 minute' from generate_series(1, 20000) as n`,
  )
  await pool.query('vacuum analyze letters')
  const connection = await pool.connect()
  onCleanup(t, () => connection.release(true))
  const readRows = async () => {
    await connection.query('select pg_stat_force_next_flush()')
    const { rows } = await connection.query(
      `select (seq_tup_read + idx_tup_fetch)::integer as reads from pg_stat_user_tables where relname = 'letters'`,
    )
    return Number(rows[0].reads)
  }
  const before = await readRows()
  assert.equal(await correctTimes(connection, LETTERS), 0)
  const { receivers } = await endPauses(connection, LETTERS, new Map([['Fir 7', 3_600_000]]))
  assert.deepEqual(receivers, new Set(['Fir 7']))
  const reads = (await readRows()) - before
  assert.ok(reads < 1_500, `${reads} rows were read to change 200`)
})

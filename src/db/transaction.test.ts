import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createTestDatabase, type TestDatabase, terminateBackends } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { inTransaction } from './transaction.ts'

async function makeAccounts(t: TestContext): Promise<TestDatabase> {
  const db = await createTestDatabase(t)
  await db.pool.query('create table accounts (name text primary key, balance integer not null check (balance >= 0))')
  await db.pool.query(`insert into accounts values ('ada', 10), ('bob', 10)`)
  return db
}

async function balances({ pool }: TestDatabase): Promise<number[]> {
  const { rows } = await pool.query('select balance from accounts order by name')
  return rows.map((row) => row.balance)
}

const add = (name: string, amount: number) => ({
  text: 'update accounts set balance = balance + $2 where name = $1',
  values: [name, amount],
})

test('commits the work and returns its result', async (t) => {
  const db = await makeAccounts(t)
  const result = await inTransaction(db.pool, async (tx) => {
    await tx.query(add('ada', -3))
    await tx.query(add('bob', 3))
    return 'paid'
  })
  assert.equal(result, 'paid')
  assert.deepEqual(await balances(db), [7, 13])
})

test('rolls everything back if the work throws or a statement fails, and throws the same error', async (t) => {
  const db = await makeAccounts(t)
  const changedMind = new Error('changed my mind')
  await assert.rejects(
    inTransaction(db.pool, async (tx) => {
      await tx.query(add('ada', -3))
      throw changedMind
    }),
    (error) => error === changedMind,
  )
  await assert.rejects(
    inTransaction(db.pool, async (tx) => {
      await tx.query(add('bob', 3))
      await tx.query(add('ada', -11))
    }),
    { code: '23514' },
  )
  assert.deepEqual(await balances(db), [10, 10])
  assert.deepEqual([db.pool.idleCount, db.pool.totalCount], [1, 1])
})

test('completes two transactions that deadlock by running the victim again', async (t) => {
  const db = await makeAccounts(t)
  const bothHold = Promise.withResolvers<void>()
  let holders = 0
  const survivor = Promise.withResolvers<void>()
  let runs = 0
  const transfer = async (from: string, to: string) => {
    await inTransaction(db.pool, async (tx) => {
      // In its second run, the victim could deadlock again with the survivor, which has not woken up yet.
      if (++runs > 2) await survivor.promise
      await tx.query(add(from, -1))
      if (++holders === 2) bothHold.resolve()
      await bothHold.promise
      await tx.query(add(to, 1))
    })
    survivor.resolve()
  }
  await Promise.all([transfer('ada', 'bob'), transfer('bob', 'ada')])
  assert.equal(runs, 3)
  assert.deepEqual(await balances(db), [10, 10])
})

test('gives up on a transaction that is the victim three times, with a pause before each retry', async (t) => {
  const db = await makeAccounts(t)
  let runs = 0
  const began = performance.now()
  const work = inTransaction(db.pool, async (tx) => {
    runs++
    await tx.query(`do $$ begin raise exception 'again' using errcode = '40001'; end $$`)
  })
  await assert.rejects(work, { code: '40001' })
  assert.equal(runs, 3)
  // The sum of the shortest pauses between the three attempts.
  assert.ok(performance.now() - began >= 15)
})

test('does not reuse a connection that broke in a transaction, and the work is rolled back', async (t) => {
  const db = await makeAccounts(t)
  const broken = inTransaction(db.pool, async (tx) => {
    await tx.query(add('ada', 5))
    await terminateBackends(db)
    await tx.query(add('bob', 5))
  })
  await assert.rejects(broken)
  assert.equal(db.pool.totalCount, 0)
  assert.deepEqual(await balances(db), [10, 10])
})

test('the server closes a connection that a lost commit has left in an open transaction', async (t) => {
  const db = await makeAccounts(t)
  await assert.rejects(
    inTransaction(db.pool, async (tx) => {
      await tx.query(add('ada', 5))
      await terminateBackends(db)
    }),
  )
  await eventually(async () => {
    const { rows } = await db.pool.query(`select from pg_stat_activity where datname = $1 and state like 'idle in transaction%'`, [db.name])
    return rows.length === 0
  })
  assert.deepEqual(await balances(db), [10, 10])
})

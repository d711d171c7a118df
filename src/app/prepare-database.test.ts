import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type pg from 'pg'
import pino from 'pino'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'
import { createEmptyDatabase, createTestDatabase, databaseUrl } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { roleOf } from '../db/addresses.ts'
import { assertMigrated } from '../db/migrate.ts'
import { OperatorError } from '../errors.ts'
import { prepareDatabase } from './prepare-database.ts'

const logger = pino({ level: 'silent' })

async function openEmpty(t: Cleanup) {
  const { url, pool } = await createEmptyDatabase(t)
  const name = new URL(url).pathname.slice(1)
  return { pool, addresses: { api: databaseUrl(name, 'api'), stream: databaseUrl(name, 'stream'), owner: url } }
}

/**
 * Each step that takes locks, with the statement of another session that blocks it. `isInTheWay` says whether the
 * store's own statements wait behind the step.
 */
const STEPS = [
  { what: 'the schema', isInTheWay: true, open: openEmpty, hold: 'create table users (taken boolean)' },
  { what: 'the schema that another process migrates', open: openEmpty, hold: 'select pg_advisory_xact_lock(7241865325823964)' },
  { what: 'the replication slots', open: createTestDatabase, hold: 'select pg_current_xact_id()' },
  {
    what: 'the rights',
    isInTheWay: true,
    open: async (t: Cleanup) => {
      const db = await createTestDatabase(t)
      await db.pool.query(`revoke select on products from ${roleOf(db.addresses.api)}`)
      return db
    },
    hold: `select pg_advisory_xact_lock(hashtextextended('storefront rights', 0))`,
  },
]

async function holdIn(t: Cleanup, pool: pg.Pool, statement: string) {
  const holder = await pool.connect()
  onCleanup(t, () => holder.release(true))
  await holder.query(`begin; set local application_name = 'nightly report'`)
  await holder.query(statement)
  return { pid: (holder as unknown as { processID: number }).processID, letGo: () => holder.query('rollback') }
}

describe('the steps of a migration', { concurrency: true }, () => {
  for (const { what, isInTheWay = false, open, hold } of STEPS) {
    test(`${what}: retries for locks, names the blocking session, and finishes after it`, async (t) => {
      const { pool, addresses } = await open(t)
      const { pid, letGo } = await holdIn(t, pool, hold)
      const lines: string[] = []
      const migration = prepareDatabase(addresses, logger, { pauseMs: 100, reportMs: 500, onWaiting: (line) => lines.push(line) })
      const isNamed = (line: string) =>
        line.includes(`pid ${pid} (nightly report, ${roleOf(addresses.owner)}, idle in transaction, query began `)
      await eventually(async () => lines.some((line) => isNamed(line) && (!isInTheWay || line.includes('; retried in '))), {
        what: 'a line about the session',
        timeoutMs: 25_000,
      })
      await letGo()
      await migration
      await assertMigrated(pool)
      const { rowCount } = await pool.query('select from pg_replication_slots where database = current_database()')
      assert.equal(rowCount, 2)
      await pool.query('select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()')
    })
  }
})

test('gives up after the given time, and names the blocking session', async (t) => {
  const { pool, addresses } = await openEmpty(t)
  const { pid } = await holdIn(t, pool, 'create table users (taken boolean)')
  await assert.rejects(prepareDatabase(addresses, logger, { waitMs: 1_500, pauseMs: 500 }), (error: Error) => {
    assert.ok(error instanceof OperatorError)
    const isSentence = new RegExp(
      `^the database could not be locked within 2 s: pid ${pid} \\(nightly report, .*\\) holds a transactionid; end that, or run storefront migrate again later$`,
    )
    assert.match(error.message, isSentence)
    return true
  })
})

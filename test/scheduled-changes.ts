import { pino } from 'pino'
import { createScheduledChanges } from '../src/catalogue/apply-due-changes.ts'
import type { Pool } from '../src/db/pool.ts'
import { eventually } from './eventually.ts'

/** Runs this number of loops of scheduled changes until no product is due. */
export async function runScheduledChanges(pool: Pool, count = 1): Promise<void> {
  const loops = Array.from({ length: count }, () => createScheduledChanges({ pool, logger: pino({ level: 'silent' }) }))
  await Promise.all(loops.map((loop) => loop.start()))
  const due = `select from products where changes_at <= clock_timestamp()`
  await eventually(async () => (await pool.query(due)).rowCount === 0, { what: 'no due change', timeoutMs: 20_000 })
  await Promise.all(loops.map((loop) => loop.stop()))
}

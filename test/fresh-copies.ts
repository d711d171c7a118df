import pino, { type Logger } from 'pino'
import { FreshCopies } from '../src/db/fresh-copies.ts'
import { connectClient, type Queryable } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'

/** Of the copy that only polls: so often that no test waits for a poll. */
const PROBE_AGE_MS = 20
const APPLICATION_NAME = 'copies-under-test'

interface Database {
  url: string
  pool: Queryable
}

/** Copies of a database that poll all the time once they are started, with connections that the test can refuse, count and cut. */
export function makeCopies(
  cleanup: Cleanup,
  { url, pool }: Database,
  { askedPool = pool, logger = pino({ level: 'silent' }) }: { askedPool?: Queryable; logger?: Logger } = {},
) {
  const gate = { isOpen: true, connections: 0 }
  const copies = new FreshCopies({
    pool: askedPool,
    async connect(signal) {
      if (!gate.isOpen) throw new Error('the database is unavailable')
      gate.connections++
      return connectClient(url, APPLICATION_NAME, signal)
    },
    logger,
  })
  const probe = copies.add<{ one: number }>({
    ...{ name: 'probe', columns: ['one'], maxAgeMs: PROBE_AGE_MS },
    read: () => sql`select 1 as one`,
    learn() {},
  })
  onCleanup(cleanup, () => copies.stop())
  const cut = () =>
    pool.query('select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and datname = current_database()', [
      APPLICATION_NAME,
    ])
  /** Returns after a poll that begins later than this call. */
  const poll = () => probe.nextPoll()
  return { copies, gate, cut, poll }
}

import type pg from 'pg'
import pino, { type Logger } from 'pino'
import { FreshCopies } from '../src/db/fresh-copies.ts'
import { connectClient, type Queryable } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'

/** Age of the copy that only polls: so short that no test waits for a poll. */
const PROBE_AGE_MS = 20
const APPLICATION_NAME = 'copies-under-test'

interface Database {
  url: string
  pool: Queryable
}

/**
 * Copies of a database that poll all the time once they are started, with connections that the test can refuse, count
 * and cut, and answers that it can hold back: of statements that begin while `held` is set. `holding` counts those.
 * */
export function makeCopies(
  cleanup: Cleanup,
  { url, pool }: Database,
  { askedPool = pool, logger = pino({ level: 'silent' }) }: { askedPool?: Queryable; logger?: Logger } = {},
) {
  const gate = { isOpen: true, connections: 0, held: null as Promise<void> | null, holding: 0 }
  const copies = new FreshCopies({
    pool: askedPool,
    async connect(signal) {
      if (!gate.isOpen) throw new Error('the database is unavailable')
      gate.connections++
      return holdAnswers(await connectClient(url, APPLICATION_NAME, signal), gate)
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

function holdAnswers(client: pg.Client, gate: { held: Promise<void> | null; holding: number }): pg.Client {
  const query = client.query.bind(client)
  client.query = (async (...args: Parameters<typeof query>) => {
    const { held } = gate
    const answer = await query(...args)
    if (held !== null) {
      gate.holding++
      await held
    }
    return answer
  }) as never
  return client
}

import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors.ts'
import { connectClient, type Queryable } from './pool.ts'
import { sql } from './sql.ts'
import { DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE, sqlState } from './sql-state.ts'

export interface LockRetryOptions {
  url: string
  waitMs?: number
  /** Called when an attempt gets no lock or waits for long, with a sentence that names the blocking sessions. */
  onWaiting?: (line: string) => void
  pauseMs?: number
  reportMs?: number
}

export type Watch = (session: Queryable) => Promise<void>

export const LOCK_WAIT_MS = 3_600_000
const PAUSE_MS = 3_000
const REPORT_MS = 5_000
const LOOK_MS = 250
const MAX_NAMED = 5

/** Each attempt ends after the `lock_timeout` of its sessions, and others pass in the pause. */
export class LockRetries {
  readonly #options: Required<LockRetryOptions>
  readonly #startedAt = performance.now()
  #blockers: string[] = []

  constructor(options: LockRetryOptions) {
    this.#options = { waitMs: LOCK_WAIT_MS, onWaiting: () => {}, pauseMs: PAUSE_MS, reportMs: REPORT_MS, ...options }
  }

  /** `work` must have undone everything when it throws. Throws OperatorError when the time is over. */
  async run<T>(work: (watch: Watch) => Promise<T>): Promise<T> {
    for (;;) {
      const sessions: number[] = []
      const end = new AbortController()
      this.#blockers = []
      const looking = this.#look(sessions, end.signal)
      try {
        return await work(async (session) => void sessions.push(await pidOf(session)))
      } catch (error) {
        if (![LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED].includes(sqlState(error) ?? '')) throw error
        await this.#pause(error)
      } finally {
        end.abort()
        await looking
      }
    }
  }

  report(line: string): void {
    this.#options.onWaiting(line)
  }

  async #pause(cause: unknown): Promise<void> {
    const { pauseMs, onWaiting, waitMs } = this.#options
    if (this.leftMs < pauseMs) {
      const spent = `the database could not be locked within ${inWords(waitMs)}`
      throw new OperatorError(`${spent}: ${this.#who}; end that, or run storefront migrate again later`, { cause })
    }
    onWaiting(`waiting for a lock: ${this.#who}; retried in ${inWords(pauseMs)}, for at most ${inWords(this.leftMs)}`)
    await delay(pauseMs)
  }

  async #look(sessions: readonly number[], signal: AbortSignal): Promise<void> {
    const { url, reportMs, onWaiting } = this.#options
    let reportAt = performance.now() + reportMs
    try {
      await delay(LOOK_MS, undefined, { signal })
      await using client = await connectClient(url, 'storefront-migrate', signal)
      for (;;) {
        const blockers = await findBlockers(client, sessions)
        if (blockers.length > 0) this.#blockers = blockers
        if (blockers.length > 0 && performance.now() >= reportAt) {
          onWaiting(`waiting for a lock: ${this.#who}`)
          reportAt = performance.now() + reportMs
        }
        await delay(LOOK_MS, undefined, { signal })
      }
    } catch (error) {
      if (!signal.aborted) onWaiting(`cannot read who holds locks: ${(error as Error).message}`)
    }
  }

  get leftMs(): number {
    return this.#startedAt + this.#options.waitMs - performance.now()
  }

  get #who(): string {
    const more = this.#blockers.length - MAX_NAMED
    const named = this.#blockers.slice(0, MAX_NAMED).join(', ')
    if (named === '') return 'another session holds it'
    return more > 0 ? `${named} and ${more} more` : named
  }
}

async function pidOf(session: Queryable): Promise<number> {
  const { rows } = await session.query<{ pid: number }>(sql`select pg_backend_pid() as pid`)
  return rows[0]?.pid ?? 0
}

interface Blocker {
  pid: number
  application: string | null
  role: string | null
  state: string | null
  query_start: Date | null
  wanted: string
}

async function findBlockers(db: Queryable, sessions: readonly number[]): Promise<string[]> {
  const { rows } = await db.query<Blocker>(
    sql`select
      blocking.pid, nullif(application_name, '') as application, usename as role, state, query_start,
      case waiting.locktype
        when 'virtualxid' then 'a snapshot that is older than the new index'
        else coalesce(waiting.relation::regclass::text, 'a ' || waiting.locktype)
      end as wanted
    from pg_locks as waiting
    cross join unnest(pg_blocking_pids(waiting.pid)) as blocking (pid)
    left join pg_stat_activity as session on session.pid = blocking.pid
    where not waiting.granted and waiting.pid = any(${sessions}::integer[])
    order by xact_start nulls last, blocking.pid`,
  )
  return rows.map(describe)
}

function describe({ pid, application, role, state, query_start: began, wanted }: Blocker): string {
  if (pid === 0) return `a prepared transaction (pg_prepared_xacts) holds ${wanted}`
  // State and times of other roles' sessions are visible only to pg_read_all_stats.
  const known = [application, role, state, began === null ? null : `query began ${began.toISOString()}`]
  return `pid ${pid} (${known.filter((each) => each !== null).join(', ')}) holds ${wanted}`
}

function inWords(ms: number): string {
  const seconds = Math.ceil(ms / 1_000)
  return seconds < 120 ? `${seconds} s` : seconds < 7_200 ? `${Math.ceil(seconds / 60)} min` : `${Math.ceil(seconds / 3_600)} h`
}

import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Connect, follow } from '../db/follow.ts'
import type { Queryable } from '../db/pool.ts'
import { isSessionAlive } from './sessions.ts'
import { ACCESS_TOKEN_SECONDS, CLOCK_TOLERANCE_SECONDS } from './signing-keys.ts'

const POLL_MS = 200
const POLL_TIMEOUT_MS = 2_000
const RETRY_MS = 250
/** What is older than this is not relied on. With it, a session that ended is refused everywhere a second later. */
const FRESH_MS = 1_000
/** Access tokens issued before a revocation have expired after this, with room for clocks that differ. */
export const REMEMBER_SECONDS = ACCESS_TOKEN_SECONDS + CLOCK_TOLERANCE_SECONDS + 300

export interface RevocationsOptions {
  pool: Queryable
  connect: Connect
  logger: Logger
  now: () => Date
}

/**
 * Knows which sessions have ended before their time, without asking the database for each request: those that ended in this
 * process at once, the others by reading `session_revocations` five times a second. While that does not work, it does ask.
 */
export class Revocations {
  readonly #options: RevocationsOptions
  /** Session id → when it may be forgotten, by performance.now(). Oldest first. */
  readonly #revoked = new Map<string, number>()
  readonly #stopping = new AbortController()
  /** When the last good look began, by performance.now(). */
  #lookedAt = Number.NEGATIVE_INFINITY
  #running: Promise<void> | undefined

  constructor(options: RevocationsOptions) {
    this.#options = options
  }

  /** Tells this process of sessions it has just ended. Call it after the commit and before the answer. */
  add(...sessionIds: string[]): void {
    for (const id of sessionIds) this.#revoked.set(id, performance.now() + REMEMBER_SECONDS * 1000)
  }

  /** Whether an access token of this session that is otherwise good must be refused. */
  async isRevoked(sessionId: string): Promise<boolean> {
    if (this.#revoked.has(sessionId)) return true
    if (performance.now() - this.#lookedAt <= FRESH_MS) return false
    return !(await isSessionAlive(this.#options.pool, sessionId, this.#options.now()))
  }

  start(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#running ??= this.#follow(resolve)
    // The first look, or the first failure to look: without it every request asks, and that is right too.
    return promise
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  #follow(started: () => void): Promise<void> {
    const { signal } = this.#stopping
    const { connect, logger } = this.#options
    let isBroken = false
    return follow({
      connect,
      signal,
      retryMs: RETRY_MS,
      work: async (client) => {
        client.on('error', () => {})
        // Transaction ids mean something to one server only, so a new connection reads everything anew.
        let since = '0'
        while (!signal.aborted) {
          since = await this.#look(client, since)
          if (isBroken) logger.info('news of ended sessions comes in again')
          isBroken = false
          started()
          await delay(POLL_MS, undefined, { signal }).catch(() => {})
        }
      },
      onFailure(error) {
        if (!isBroken) logger.warn({ err: error }, 'no news of ended sessions: asking the database for each request meanwhile')
        isBroken = true
        started()
      },
    })
  }

  /** Reads what may be new and returns from where to read next: every transaction before that had ended. */
  async #look(client: pg.Client, since: string): Promise<string> {
    const beganAt = performance.now()
    const query: pg.QueryConfig & { query_timeout: number } = {
      name: 'session-revocations',
      text: `select
          pg_snapshot_xmin(pg_current_snapshot())::text as next,
          array(select session_id::text from session_revocations where transaction_id >= $1::xid8) as ended`,
      values: [since],
      query_timeout: POLL_TIMEOUT_MS,
    }
    const { rows } = await client.query<{ next: string; ended: string[] }>(query)
    const [row] = rows
    if (row === undefined) return since
    for (const id of row.ended) if (!this.#revoked.has(id)) this.add(id)
    this.#lookedAt = beganAt
    this.#forget()
    return row.next
  }

  #forget(): void {
    for (const [id, until] of this.#revoked) {
      if (until > performance.now()) return
      this.#revoked.delete(id)
    }
  }
}

import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { clockDifference } from '../../db/clock.ts'
import type { Queryable } from '../../db/pool.ts'
import { type Connect, withReconnect } from '../../db/with-reconnect.ts'
import { isSessionAlive } from '../sessions.ts'
import { ISSUED_AHEAD_SECONDS, LONGEST_ACCEPTED_SECONDS } from './signing-keys.ts'

const POLL_MS = 400
const POLL_TIMEOUT_MS = 2_000
const RETRY_MS = 250
/** An older poll is not relied on: an ended session is refused everywhere after a second. */
const FRESH_MS = 1_000
/** A revocation is forgotten this long after it, and after the session's newest access token was issued by any clock. */
export const REMEMBER_SECONDS = LONGEST_ACCEPTED_SECONDS + 300
const FORGET_EVERY_MS = 10_000

/** A revocation may be forgotten after both times. */
interface Remembered {
  /** By performance.now(). */
  until: number
  /** By the clock that tokens are compared with, in milliseconds since 1970. */
  clockUntilMs: number
}

interface RevocationsOptions {
  pool: Queryable
  connect: Connect
  logger: Logger
  now: () => Date
  /** Polled after each poll, on the same connection. */
  alongside?: { poll(client: pg.Client): Promise<void> }
}

/**
 * Knows the revoked sessions without a query for each request: those of this process at once, the others by reading
 * `session_revocations` every 400 ms. While that fails, each request queries its session.
 */
export class Revocations {
  readonly #options: RevocationsOptions
  /** By session id. */
  readonly #revoked = new Map<string, Remembered>()
  #forgotAt = Number.NEGATIVE_INFINITY
  readonly #stopping = new AbortController()
  /** Start of the last successful poll, by performance.now(). */
  #polledAt = Number.NEGATIVE_INFINITY
  /** Whether this process and the database agree on the time. Otherwise one may have forgotten what the other still accepts. */
  #isClockRight = true
  #running: Promise<void> | undefined

  constructor(options: RevocationsOptions) {
    this.#options = options
  }

  /** Adds sessions that this process has ended. Call it after the commit and before the answer. */
  add(...sessionIds: string[]): void {
    for (const id of sessionIds) this.#remember(id, this.#options.now().getTime())
  }

  /** Whether a valid access token of this session must be refused. */
  async isRevoked(sessionId: string): Promise<boolean> {
    if (this.#revoked.has(sessionId)) return true
    if (this.#isClockRight && performance.now() - this.#polledAt <= FRESH_MS) return false
    return !(await isSessionAlive(this.#options.pool, sessionId, this.#options.now()))
  }

  start(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#running ??= this.#keepPolling(resolve)
    // After the first poll, or its failure: then each request queries its session.
    return promise
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  #keepPolling(started: () => void): Promise<void> {
    const { signal } = this.#stopping
    const { connect, logger } = this.#options
    let isBroken = false
    return withReconnect({
      connect,
      signal,
      retryMs: RETRY_MS,
      work: async (client) => {
        // Transaction ids belong to one server, so a new connection reads everything again.
        let since = '0'
        while (!signal.aborted) {
          since = await this.#poll(client, since)
          await this.#options.alongside?.poll(client)
          if (isBroken) logger.info('reads ended sessions again')
          isBroken = false
          started()
          await delay(POLL_MS, undefined, { signal }).catch(() => {})
        }
      },
      onFailure(error) {
        if (!isBroken) logger.warn({ err: error }, 'cannot read ended sessions: each request queries its session meanwhile')
        isBroken = true
        started()
      },
    })
  }

  /** Reads new revocations and returns where the next poll begins: every transaction before that has ended. */
  async #poll(client: pg.Client, since: string): Promise<string> {
    const beganAt = performance.now()
    const query: pg.QueryConfig & { query_timeout: number } = {
      name: 'session-revocations',
      text: `select
          pg_snapshot_xmin(pg_current_snapshot())::text as next,
          clock_timestamp() as clock,
          array(
            select json_build_array(session_id, extract(epoch from last_issued_at) * 1000)
            from session_revocations
            where transaction_id >= $1::xid8
          ) as ended`,
      values: [since],
      query_timeout: POLL_TIMEOUT_MS,
    }
    const before = this.#options.now()
    const { rows } = await client.query<{ next: string; clock: Date; ended: [id: string, lastIssuedAtMs: number][] }>(query)
    const [row] = rows
    if (row === undefined) return since
    this.#compareClocks(before, row.clock, this.#options.now())
    for (const [id, lastIssuedAtMs] of row.ended) this.#remember(id, lastIssuedAtMs)
    this.#polledAt = beganAt
    this.#forget()
    return row.next
  }

  #remember(sessionId: string, lastIssuedAtMs: number): void {
    const { until, clockUntilMs } = this.#revoked.get(sessionId) ?? { until: performance.now() + REMEMBER_SECONDS * 1000, clockUntilMs: 0 }
    this.#revoked.set(sessionId, { until, clockUntilMs: Math.max(clockUntilMs, lastIssuedAtMs + REMEMBER_SECONDS * 1000) })
  }

  #compareClocks(before: Date, clock: Date, after: Date): void {
    const seconds = Math.abs(clockDifference(before.getTime(), clock.getTime(), after.getTime()))
    const isRight = seconds <= ISSUED_AHEAD_SECONDS
    if (isRight === this.#isClockRight) return
    this.#isClockRight = isRight
    const { logger } = this.#options
    if (isRight) logger.info('the clock of this process and that of the database agree again')
    else {
      logger.warn(
        { differsBySeconds: Math.round(seconds) },
        'the clocks of this process and of the database differ, so each request queries its session: set them by NTP',
      )
    }
  }

  #forget(): void {
    const now = performance.now()
    if (now - this.#forgotAt < FORGET_EVERY_MS) return
    this.#forgotAt = now
    const clockMs = this.#options.now().getTime()
    for (const [id, { until, clockUntilMs }] of this.#revoked) if (until < now && clockUntilMs < clockMs) this.#revoked.delete(id)
  }
}

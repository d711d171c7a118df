import type { Logger } from 'pino'
import { clockDifference } from '../../db/clock.ts'
import type { FreshCopies, FreshCopy } from '../../db/fresh-copies.ts'
import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { isSessionAlive } from '../sessions.ts'
import { ISSUED_AHEAD_SECONDS, LONGEST_ACCEPTED_SECONDS } from './signing-keys.ts'

/** Older copies are not used, so every process refuses an ended session after a second. */
const MAX_AGE_MS = 1_000
/** A revocation is kept this long, also counted from the session's newest access token by any clock. */
export const REMEMBER_SECONDS = LONGEST_ACCEPTED_SECONDS + 300
const FORGET_EVERY_MS = 10_000

/** A revocation may be forgotten after both times. */
interface Remembered {
  /** A time of performance.now(). */
  until: number
  /** A time of the clock that checks tokens, in milliseconds since 1970. */
  clockUntilMs: number
}

interface RevocationsOptions {
  copies: FreshCopies
  pool: Queryable
  logger: Logger
  now: () => Date
}

interface News {
  clock: Date
  ended: [id: string, lastIssuedAtMs: number][]
}

/**
 * Finds revoked sessions without a query for each request. This process's revocations count at once; others come from a
 * copy of `session_revocations`. While the copy is not fresh, each request queries its session.
 */
export class Revocations {
  readonly #options: RevocationsOptions
  readonly #copy: FreshCopy<News>
  /** Revocations by session id. */
  readonly #revoked = new Map<string, Remembered>()
  #forgotAt = Number.NEGATIVE_INFINITY
  /**
   * Whether this process and the database agree on the time. Otherwise one may forget revocations of tokens that the
   * other still accepts.
   */
  #isClockRight = true

  constructor(options: RevocationsOptions) {
    this.#options = options
    this.#copy = options.copies.add<News>({
      name: 'revocations',
      columns: ['clock', 'ended'],
      read: (since) => sql`select
          clock_timestamp() as clock,
          array(
            select json_build_array(session_id, extract(epoch from last_issued_at) * 1000)
            from session_revocations
            where transaction_id >= ${since}::xid8
          ) as ended`,
      maxAgeMs: MAX_AGE_MS,
      learn: (news, { beganAt }) => this.#learn(news, beganAt),
    })
  }

  /** Adds sessions that this process has ended. Call after the commit and before answering. */
  add(...sessionIds: string[]): void {
    for (const id of sessionIds) this.#remember(id, this.#options.now().getTime())
  }

  /** Whether a valid access token of this session must be refused. */
  async isRevoked(sessionId: string): Promise<boolean> {
    if (this.#revoked.has(sessionId)) return true
    if (this.#isClockRight && this.#copy.isFresh) return false
    return !(await isSessionAlive(this.#options.pool, sessionId, this.#options.now()))
  }

  #learn({ clock, ended }: News, beganAt: number): void {
    const now = this.#options.now().getTime()
    this.#compareClocks(now - (performance.now() - beganAt), clock.getTime(), now)
    for (const [id, lastIssuedAtMs] of ended) this.#remember(id, lastIssuedAtMs)
    this.#forget()
  }

  #remember(sessionId: string, lastIssuedAtMs: number): void {
    const { until, clockUntilMs } = this.#revoked.get(sessionId) ?? { until: performance.now() + REMEMBER_SECONDS * 1000, clockUntilMs: 0 }
    this.#revoked.set(sessionId, { until, clockUntilMs: Math.max(clockUntilMs, lastIssuedAtMs + REMEMBER_SECONDS * 1000) })
  }

  #compareClocks(beforeMs: number, clockMs: number, afterMs: number): void {
    const seconds = Math.abs(clockDifference(beforeMs, clockMs, afterMs))
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

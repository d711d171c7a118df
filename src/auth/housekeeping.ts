import type { Logger } from 'pino'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { REMEMBER_SECONDS } from './tokens/revocations.ts'

const INTERVAL_MS = 600_000

/** What has run out, long enough ago that nothing looks at it any more. Each is right to run anywhere, at any time, twice. */
const STATEMENTS = [
  sql`delete from session_revocations
  where revoked_at < now() - make_interval(secs => ${REMEMBER_SECONDS})
    and last_issued_at < now() - make_interval(secs => ${REMEMBER_SECONDS})`,
  // With the session go its tokens.
  sql`delete from sessions
  where expires_at < now() - interval '1 day' or revoked_at < now() - interval '7 days' or last_used_at < now() - interval '31 days'`,
  sql`delete from refresh_tokens where expires_at < now() - interval '1 day'`,
  sql`delete from password_resets where expires_at < now()`,
  sql`delete from pending_registrations where expires_at < now()`,
  sql`update signing_keys set sealed_private_key = null where retired_at <= now() and sealed_private_key is not null`,
  sql`delete from signing_keys where retired_at < now() - interval '1 day'`,
  sql`delete from rate_limits where expire < extract(epoch from now()) * 1000`,
] as const

/** Deletes what has run out, every ten minutes, in every process that has the API. */
export class Housekeeping {
  readonly #pool: Pool
  readonly #logger: Logger
  #timer: NodeJS.Timeout | undefined
  #working: Promise<void> | null = null

  constructor(pool: Pool, logger: Logger) {
    this.#pool = pool
    this.#logger = logger
  }

  start(): Promise<void> {
    this.#timer ??= setInterval(() => {
      this.#working ??= this.run()
        .catch((error) => this.#logger.warn({ err: error }, 'could not delete what has run out; it is tried again'))
        .finally(() => {
          this.#working = null
        })
    }, INTERVAL_MS)
    return Promise.resolve()
  }

  async run(): Promise<void> {
    for (const statement of STATEMENTS) await this.#pool.query(statement)
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#working
  }
}

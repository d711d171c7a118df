import type { Logger } from 'pino'
import { sql } from '../db/sql.ts'
import { Loop } from '../loop.ts'

/** What pg-boss offers of its connections. */
interface JobDatabase {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: { seconds: number; has_jobs_ahead: boolean }[] }>
}

/** Smallest step. A smaller one is a correction by NTP, which delays jobs by as much. */
const STEP_SECONDS = 60

const STEP = sql`make_interval(secs => ${STEP_SECONDS})`
/** The longest pause that pg-boss makes before the next attempt of a job. */
const LONGEST_PAUSE = sql`make_interval(secs => least(retry_delay_max, greatest(retry_delay, 1) * 2 ^ least(16, retry_count + 1)))`
/** Its attempt may have begun before the clock was ahead: its start alone says that it ended then. */
const WAITS_TOO_LONG = sql`state = 'retry' and start_after > now() + ${LONGEST_PAUSE} + ${STEP}`

// Times that the clock has not reached yet were written before it went back. A job that is due later than they are counts from them; one
// that is due earlier has a time of its own.
const CORRECT = sql`
  with corrected_jobs as (
    update pgboss.job
    set start_after = least(
        case
          when start_after >= greatest(created_on, started_on) then start_after - (greatest(created_on, started_on, now()) - now())
          else start_after
        end,
        case when state = 'retry' then now() + ${LONGEST_PAUSE} end
      ),
      created_on = least(created_on, now()),
      started_on = least(started_on, now()),
      heartbeat_on = least(heartbeat_on, now())
    where state <= 'active' and (greatest(created_on, started_on, heartbeat_on) > now() + ${STEP} or ${WAITS_TOO_LONG})
  ), corrected_queues as (
    update pgboss.queue
    set monitor_claim_on = least(monitor_claim_on, now()), monitor_on = least(monitor_on, now()), maintain_on = least(maintain_on, now())
    where greatest(monitor_claim_on, monitor_on, maintain_on) > now()
  )
  update pgboss.version
  set cron_on = least(cron_on, now()), bam_on = least(bam_on, now()), flow_on = least(flow_on, now()),
    reindex_on = least(reindex_on, now()), monitor_backoff_on = least(monitor_backoff_on, now())
  where greatest(cron_on, bam_on, flow_on, reindex_on, monitor_backoff_on) > now()`

// A step that no check saw, there and back between two, has left waiting jobs. An index of pg-boss has the waiting ones alone.
const READ = sql`
  select extract(epoch from clock_timestamp())::float8 as seconds, exists (
    select from pgboss.job
    where state < 'active' and not blocked
      and start_after > now() + ${STEP}
      and (greatest(created_on, started_on) > now() + ${STEP} or ${WAITS_TOO_LONG})
  ) as has_jobs_ahead`

/**
 * Notices that the database's clock has gone back, and corrects the times of the job queue: otherwise jobs of the time before, the release
 * of dead processes' jobs, and scheduled jobs wait until the clock is there again.
 */
export class DatabaseClock {
  readonly #db: JobDatabase
  readonly #logger: Logger
  /** Seconds by which the clock is ahead of performance.now(); null before the first check. */
  #aheadSeconds: number | null = null
  readonly #loop: Loop

  constructor(db: JobDatabase, logger: Logger, everySeconds: number) {
    this.#db = db
    this.#logger = logger
    const everyMs = everySeconds * 1_000
    this.#loop = new Loop({
      ...{ firstMs: everyMs, everyMs },
      work: () => this.check(),
      onFailure: (error) => logger.debug({ err: error }, "the database's clock could not be read"),
    })
  }

  /** Checks now, because the clock may have gone back while no process ran, and then again and again. */
  async start(): Promise<void> {
    await this.check()
    await this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async check(): Promise<void> {
    const { rows } = await this.#db.executeSql(READ.text, READ.values)
    const { seconds = 0, has_jobs_ahead: hasJobsAhead = false } = rows[0] ?? {}
    const aheadSeconds = seconds - performance.now() / 1_000
    const bySeconds = this.#aheadSeconds === null ? 0 : Math.round(this.#aheadSeconds - aheadSeconds)
    const wentBack = bySeconds > STEP_SECONDS
    if (this.#aheadSeconds === null || wentBack || hasJobsAhead) {
      await this.#db.executeSql(CORRECT.text, CORRECT.values)
      if (wentBack || hasJobsAhead)
        this.#logger.warn({ bySeconds }, "the database's clock went back: the times of waiting jobs were corrected")
    }
    this.#aheadSeconds = aheadSeconds
  }
}

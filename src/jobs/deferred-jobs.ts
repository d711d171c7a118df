import { type Sql, sql } from '../db/sql.ts'

/** What pg-boss offers of its connections. */
interface JobDatabase {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: { receiver?: string }[] }>
}

interface FetchedJob {
  id: string
  retryCount: number
  groupId?: string | null
}

/** The index of deferred jobs, by receiver. pg-boss has none, and reads past the deferred jobs of all others. */
export const DEFERRED_INDEX = {
  schema: 'pgboss',
  name: 'job_deferred_idx',
  create: `create index concurrently if not exists job_deferred_idx on pgboss.job_common (name, group_id, retry_count, created_on)
    where priority < 0 and state < 'active' and not blocked`,
}

/** A priority below that of all jobs that are fetched. */
const DEFERRED = -1
const BATCH = 1_000
const FIND_MS = 15_000
const PAUSES_PER_OUTAGE = 3

/**
 * Jobs of a queue that wait for their receiver, and not for a place: they have a priority that the worker does not fetch. Every process
 * finds all of them within 15 seconds, so none depends on the process that deferred it.
 */
export class DeferredJobs {
  readonly #db: JobDatabase
  readonly #queue: string
  readonly #receivers = new Set<string>()
  #foundAt = Number.NEGATIVE_INFINITY

  constructor(db: JobDatabase, queue: string) {
    this.#db = db
    this.#queue = queue
  }

  /** Receivers that have deferred jobs, as far as this process knows. */
  receivers(): ReadonlySet<string> {
    return this.#receivers
  }

  async #execute(statement: Sql) {
    return this.#db.executeSql(statement.text, statement.values)
  }

  /** Looks for receivers whose jobs another process has deferred. */
  async find(): Promise<void> {
    if (performance.now() - this.#foundAt < FIND_MS) return
    const next = (after: Sql) => sql`(
      select group_id as receiver
      from pgboss.job
      where name = ${this.#queue} and priority < 0 and state < 'active' and not blocked and group_id > ${after}
      order by group_id
      limit 1
    )`
    // The query walks the index from receiver to receiver, however many jobs each has.
    const { rows } = await this.#execute(
      sql`with recursive found as (${next(sql`''`)} union all select following.receiver from found, lateral ${next(sql`found.receiver`)} as following)
      select receiver from found`,
    )
    this.#foundAt = performance.now()
    for (const { receiver } of rows) if (receiver !== undefined) this.#receivers.add(receiver)
  }

  /** Gives fetched jobs back to the queue, which does not count as an attempt, and defers them. */
  async defer(jobs: readonly FetchedJob[]): Promise<void> {
    await this.#giveBack(jobs, DEFERRED)
    for (const { groupId } of jobs) if (groupId != null) this.#receivers.add(groupId)
  }

  /** Defers jobs of these receivers among those that would be fetched next, 1,000 at most: fetching each of them only to defer it takes longer. */
  async deferNext(receivers: ReadonlySet<string>): Promise<void> {
    const isNext = sql`priority >= 0 and state < 'active' and not blocked and start_after <= now()`
    await this.#execute(
      sql`update pgboss.job
      set priority = ${DEFERRED}
      from (
        select id, group_id
        from pgboss.job
        where name = ${this.#queue} and ${isNext}
        order by priority desc, created_on
        limit ${BATCH}
      ) as next
      where job.name = ${this.#queue} and job.id = next.id and next.group_id = any(${[...receivers]}::text[])
        and job.priority >= 0 and job.state < 'active'`,
    )
  }

  /** Gives fetched jobs back to the queue, which does not count as an attempt. */
  async putBack(jobs: readonly FetchedJob[]): Promise<void> {
    await this.#giveBack(jobs, 0)
  }

  async #giveBack(jobs: readonly FetchedJob[], priority: number): Promise<void> {
    await this.#execute(
      // The next fetch counts no retry of a job that was not started.
      sql`update pgboss.job
      set priority = ${priority}, started_on = null, heartbeat_on = null,
        state = case when retry_count = 0 then 'created' else 'retry' end::pgboss.job_state
      where ${this.#areFetched(jobs)}`,
    )
  }

  /** Stores that jobs have failed and are not retried. */
  async fail(jobs: readonly FetchedJob[]): Promise<void> {
    await this.#execute(sql`update pgboss.job set state = 'failed', completed_on = now() where ${this.#areFetched(jobs)}`)
  }

  /** True of jobs that this process still holds. */
  #areFetched(jobs: readonly FetchedJob[]): Sql {
    return sql`name = ${this.#queue} and state = 'active' and (id, retry_count) in (
      select id, retry_count from unnest(${jobs.map(({ id }) => id)}::uuid[], ${jobs.map(({ retryCount }) => retryCount)}::integer[]) as held (id, retry_count)
    )`
  }

  /**
   * Lets this number of jobs of each receiver be fetched: half are those that were tried least, of these the oldest, and half the newest, so that what
   * happens now does not wait for all that has come together.
   */
  async release(wanted: ReadonlyMap<string, number>): Promise<void> {
    if (wanted.size === 0) return
    const deferredOf = sql`name = ${this.#queue} and priority < 0 and state < 'active' and not blocked and group_id = wanted.receiver`
    const { rows } = await this.#execute(
      // An array of the ids: joined, the planner expects thousands of them and reads the whole table.
      sql`update pgboss.job
      set priority = 0
      where name = ${this.#queue} and priority < 0 and id = any(array(
        select deferred.id
        from unnest(${[...wanted.keys()]}::text[], ${[...wanted.values()]}::integer[]) as wanted (receiver, jobs)
        cross join lateral (
          (select id from pgboss.job where ${deferredOf} order by retry_count, created_on limit wanted.jobs - wanted.jobs / 2)
          union all
          (select id from pgboss.job where ${deferredOf} and retry_count = 0 order by created_on desc limit wanted.jobs / 2)
        ) as deferred
      ))
      returning group_id as receiver`,
    )
    const released = Map.groupBy(rows, ({ receiver }) => receiver)
    for (const [receiver, jobs] of wanted) {
      this.#receivers.delete(receiver)
      // The others come first next time.
      if ((released.get(receiver)?.length ?? 0) >= Math.ceil(jobs / 2)) this.#receivers.add(receiver)
    }
  }

  /**
   * Ends the pauses of jobs that failed, 1,000 a call. `outages`: by receiver, null for all of them, how long it was unavailable in milliseconds. A pause
   * that is left and several times as long is of a job that failed before, and would fail again. Returns whether these were the last ones.
   */
  async endPauses(outages: ReadonlyMap<string | null, number>): Promise<boolean> {
    if (outages.size === 0) return true
    // Pauses double, so that one which began in an outage is about as long as that.
    const longest = [...outages.values()].map((ms) => (Number.isFinite(ms) ? Math.ceil((ms * PAUSES_PER_OUTAGE) / 1_000) : null))
    const { rows } = await this.#execute(
      sql`update pgboss.job
      set start_after = now()
      where name = ${this.#queue} and id in (
        select id
        from pgboss.job
        where name = ${this.#queue} and state = 'retry' and not blocked and start_after > now() and exists (
          select from unnest(${[...outages.keys()]}::text[], ${longest}::float8[]) as outage (receiver, seconds)
          where (outage.receiver is null or outage.receiver = job.group_id)
            and (outage.seconds is null or job.start_after <= now() + make_interval(secs => outage.seconds))
        )
        limit ${BATCH}
      )
      returning group_id as receiver`,
    )
    return rows.length < BATCH
  }
}

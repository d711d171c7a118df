import { createHash } from 'node:crypto'
import type pg from 'pg'
import { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'
import { confirmIncarnation } from '../db/confirm-incarnation.ts'
import { LockRetries, type Watch } from '../db/lock-retries.ts'
import { ensureIndex } from '../db/migrate.ts'
import type { Queryable, Transaction } from '../db/pool.ts'
import { MIGRATION_BOUNDS, SERVING_BOUNDS, type SessionBounds, setUpSession } from '../db/session-settings.ts'
import { sql } from '../db/sql.ts'
import { Loop } from '../loop.ts'
import { withinMs } from '../within-ms.ts'
import { DatabaseClock } from './database-clock.ts'
import { DEFERRED_INDEX } from './deferred-jobs.ts'
import { type JobHandler, type JobWorker, startWorker, type WorkOptions } from './job-worker.ts'

/** A queue. Its jobs are retried after `retryDelaySeconds`, and then each time after about twice as long. */
export interface QueueDefinition {
  name: string
  retryDelaySeconds: number
  /** The longest pause between two attempts; 0 retries at once, for tests. */
  retryDelayMaxSeconds: number
  /** How long a completed or failed job is kept for inspection. */
  keepSeconds: number
  /** How much waits in it, for a queue whose table knows it better than its jobs. */
  read?: (db: Queryable) => Promise<QueueLength>
}

export interface NewJob {
  /** A UUID. A job whose id the queue already has is dropped. */
  id: string
  data: object
  /** The job runs no earlier than this; at once when missing. */
  startAfter?: Date
  /** The same, counted from the database's `now()`. */
  startAfterSeconds?: number
  /** Names the job's receiver for `WorkOptions.share`. */
  group?: string
}

/** Jobs in PostgreSQL: each runs at least once, in any process with a worker on the queue. */
export interface JobQueue {
  start(): Promise<void>
  /** Stops every worker first. A job that is still running then runs again later. Idempotent, safe before start. */
  stop(): Promise<void>
  /** Inserts jobs in the caller's transaction, by one statement: they exist if it commits. */
  send(tx: Transaction, queue: string, jobs: readonly NewJob[]): Promise<void>
  /** Calls `run` at the times of a cron expression (UTC), each time in one process. An error is logged. */
  schedule(queue: string, cron: string, run: () => Promise<void>): Promise<void>
  work<Data extends object>(queue: string, options: WorkOptions, handler: JobHandler<Data>): Promise<JobWorker>
}

export interface JobQueueOptions {
  url: string
  logger: Logger
  /** Whether this process also releases the jobs of dead processes and deletes old jobs. True by default. */
  supervise?: boolean
  /** How often it does so. 20 by default. */
  superviseSeconds?: number
  /** Whether this process also starts scheduled jobs when they are due. False by default. */
  runsScheduler?: boolean
}

const APPLICATION_NAME = 'storefront-jobs'
const CONNECTIONS = 3
const IDLE_MS = 60_000
// pg-boss deletes old jobs by one statement.
const JOB_BOUNDS: SessionBounds = { ...SERVING_BOUNDS, statement: 600_000, transaction: 600_000 }
/** Without an answer for so long the next poll uses another connection. */
const POLL_TIMEOUT_MS = 10_000
/** A due job waits at most this long for a worker of a process that did not send it. */
const POLL_MS = 2_000
// Scheduled jobs are due each minute or less often.
const SCHEDULE_POLL_SECONDS = 15
const SCHEDULED_WORK: WorkOptions = { places: 1 }
// A receiver that is back waits no longer than this, whatever the pauses of its queue.
const LONGEST_RECEIVER_PAUSE_SECONDS = 60
// After a missed heartbeat the job of a dead process is released. 10 s is the least that pg-boss allows.
const HEARTBEAT_SECONDS = 10
// How often scheduled jobs are checked.
const CLOCK_SECONDS = 30
// No job waits for others, which is what pg-boss looks for every five seconds by default.
const FLOW_SECONDS = 86_400
const SUPERVISE_SECONDS = 20
const CLEANUP_SECONDS = 3_600
// A job waits for a worker for a year: by default pg-boss drops it after 14 days.
const RETENTION_SECONDS = 365 * 86_400
// A handler decides when to give up. This bound is for a job that kills its process every time.
const RETRY_LIMIT = 1_000

/** A UUIDv8 (RFC 9562 §5.8) from the SHA-256 of the job's subject, so that the same job cannot be queued twice. */
export function jobIdOf(subject: string): string {
  const bytes = createHash('sha256').update(subject).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

interface InstallOptions extends JobQueueOptions {
  queues: readonly QueueDefinition[]
  retries?: LockRetries
}

/** Creates or upgrades the tables of pg-boss and these queues. Several processes may call it at once: pg-boss locks. */
export async function installJobQueues({ queues, retries, ...options }: InstallOptions): Promise<void> {
  const tries = retries ?? new LockRetries(options)
  await tries.run(async (watch) => {
    const boss = createBoss({ ...options, supervise: false }, { watch })
    // Its own statements wait 30 s for each lock.
    const db = boss.getDb()
    const execute = db.executeSql.bind(db)
    db.executeSql = (text, values) => execute(text.replace(/^\s*SET LOCAL lock_timeout = \d+;/m, ''), values)
    boss.on('error', (error) => logError(options.logger, error))
    try {
      await boss.start()
      for (const queue of queues) await installQueue(boss, queue)
    } finally {
      await boss.stop({ graceful: false })
    }
  })
  await ensureIndex(options.url, DEFERRED_INDEX, tries)
}

async function installQueue(boss: PgBoss, queue: QueueDefinition): Promise<void> {
  const settings = {
    retryLimit: RETRY_LIMIT,
    retryBackoff: true,
    retryDelay: queue.retryDelaySeconds,
    retryDelayMax: queue.retryDelayMaxSeconds,
    retentionSeconds: RETENTION_SECONDS,
    deleteAfterSeconds: queue.keepSeconds,
    heartbeatSeconds: HEARTBEAT_SECONDS,
  }
  await boss.createQueue(queue.name, settings)
  // `createQueue` leaves an existing queue unchanged; this applies new settings after an upgrade.
  await boss.updateQueue(queue.name, settings)
}

/** How much waits in a queue. */
export interface QueueLength {
  queued: number
  /** How long the oldest due job has waited for its first attempt, deferred ones apart; 0 when none waits. */
  oldestUntriedSeconds: number
}

export const EMPTY_QUEUE: QueueLength = { queued: 0, oldestUntriedSeconds: 0 }

/** Counts what waits in a queue, by default the jobs that are neither completed nor failed. */
export async function readJobQueue(db: Queryable, { name, read }: QueueDefinition): Promise<QueueLength> {
  if (read !== undefined) return read(db)
  const { rows } = await db.query<QueueLength>(
    sql`select
      count(*) as queued,
      coalesce(greatest(extract(epoch from now() - min(start_after) filter (where state = 'created' and priority >= 0)), 0), 0)::float8 as "oldestUntriedSeconds"
    from pgboss.job
    where name = ${name} and state <= 'active'`,
  )
  return rows[0] ?? EMPTY_QUEUE
}

/** When these jobs may start, by id: those that wait for their first or next attempt. */
export async function readJobStarts(db: Queryable, queue: string, ids: readonly string[]): Promise<Map<string, Date>> {
  const { rows } = await db.query<{ id: string; start_after: Date }>(
    sql`select id, start_after from pgboss.job where name = ${queue} and id = any(${ids}::uuid[]) and state < 'active'`,
  )
  return new Map(rows.map(({ id, start_after }) => [id, start_after]))
}

/**
 * Releases the jobs that were active when the restored backup was made: otherwise they wait for a missed heartbeat. The
 * server must have been started on the restored files, so that no process can be running a job from before that start.
 */
export async function releaseRestoredJobs(db: Queryable): Promise<void> {
  await db.query(
    sql`update pgboss.job
    set state = 'retry', start_after = now(), heartbeat_on = null
    where state = 'active' and started_on < pg_postmaster_start_time()`,
  )
}

const CHANGE_BATCH = 1_000

/**
 * Replaces the data of a queue's jobs, including completed ones that are kept. A job for which `change` returns null
 * stays unchanged. Returns the number of both.
 */
export async function changeJobData<Data extends object>(
  tx: Transaction,
  queue: string,
  change: (data: Data) => Data | null,
): Promise<{ changed: number; unchanged: number }> {
  const counts = { changed: 0, unchanged: 0 }
  let after = '00000000-0000-0000-0000-000000000000'
  while (true) {
    const { rows } = await tx.query<{ id: string; data: Data }>(
      sql`select id, data from pgboss.job where name = ${queue} and id > ${after} order by id limit ${CHANGE_BATCH} for update`,
    )
    const changed = rows.flatMap(({ id, data }) => {
      const fresh = change(data)
      return fresh === null ? [] : [{ id, data: JSON.stringify(fresh) }]
    })
    await tx.query(
      sql`update pgboss.job
      set data = fresh.data
      from unnest(${changed.map(({ id }) => id)}::uuid[], ${changed.map(({ data }) => data)}::jsonb[]) as fresh (id, data)
      where job.name = ${queue} and job.id = fresh.id`,
    )
    counts.changed += changed.length
    counts.unchanged += rows.length - changed.length
    if (rows.length < CHANGE_BATCH) return counts
    after = rows.at(-1)?.id ?? after
  }
}

/** `watch`: pg-boss also creates and upgrades its tables, which only their owner may do; it is called for each session. */
function createBoss(options: JobQueueOptions, { watch }: { watch?: Watch } = {}): PgBoss {
  const { supervise = true, superviseSeconds = SUPERVISE_SECONDS, runsScheduler = false } = options
  // The package's types lack these options: pg-boss passes unknown ones to `pg.Pool`.
  const forPool = {
    // Opening a connection takes three statements, and an idle queue uses each once in some seconds.
    idleTimeoutMillis: IDLE_MS,
    async onConnect(client: pg.ClientBase) {
      await setUpSession(client, watch === undefined ? JOB_BOUNDS : MIGRATION_BOUNDS)
      if (watch === undefined) await confirmIncarnation(client)
      else await watch(client)
    },
  }
  return new PgBoss({
    ...forPool,
    connectionString: options.url,
    application_name: APPLICATION_NAME,
    max: CONNECTIONS,
    connectionTimeoutMillis: 5_000,
    migrate: watch !== undefined,
    schedule: runsScheduler,
    cronMonitorIntervalSeconds: CLOCK_SECONDS,
    cronWorkerIntervalSeconds: SCHEDULE_POLL_SECONDS,
    flowIntervalSeconds: FLOW_SECONDS,
    supervise,
    superviseIntervalSeconds: superviseSeconds,
    monitorIntervalSeconds: superviseSeconds,
    maintenanceIntervalSeconds: CLEANUP_SECONDS,
  })
}

/** The job queue of this process. Requires that `installJobQueues` has run on the database. */
export function createJobQueue(options: JobQueueOptions): JobQueue {
  const { logger, supervise = true, superviseSeconds = SUPERVISE_SECONDS } = options
  const boss = createBoss(options)
  const clock = new DatabaseClock(boss.getDb(), logger, superviseSeconds)
  const workers = new Map<JobWorker, string>()
  const polling = new Loop({
    everyMs: POLL_MS,
    work: wakeWorkers,
    onFailure(error, { isFirst }) {
      if (isFirst) logError(logger, error as Error)
    },
    onRecovered: () => logger.info('the job queue works again'),
  })
  let stopped: Promise<void> | undefined
  boss.on('error', (error) => {
    // After the stop these are errors of connections that it closed.
    if (stopped === undefined) logError(logger, error)
  })
  boss.on('warning', (warning) => logger.warn({ warning: warning.message }, 'the job queue reported a warning'))

  async function stop(): Promise<void> {
    await Promise.all([clock.stop(), polling.stop(), ...[...workers.keys()].map((worker) => worker.stop())])
    await boss.stop({ graceful: false })
  }

  /** Wakes the workers whose queues have a job that is due: one statement for all of them. */
  async function wakeWorkers(): Promise<void> {
    if (workers.size === 0) return
    const statement = sql`select name
      from unnest(${[...workers.values()]}::text[]) as queue (name)
      where exists (select from pgboss.job where job.name = queue.name and state < 'active' and not blocked and start_after <= now())`
    const answer = await withinMs(POLL_TIMEOUT_MS, boss.getDb().executeSql(statement.text, statement.values), null)
    if (answer === null) throw new Error('the database does not say which jobs are due')
    const due = new Set(answer.rows.map(({ name }: { name: string }) => name))
    for (const [worker, queue] of workers) if (due.has(queue)) worker.wake()
  }

  async function work<Data extends object>(queue: string, options: WorkOptions, handler: JobHandler<Data>) {
    const installed = await boss.getQueue(queue)
    if (installed === null) throw new Error(`the job queue ${queue} is not installed in this database; run storefront migrate`)
    const { retryDelay = 0, retryDelayMax } = installed
    const longest = Math.min(retryDelayMax ?? retryDelay, LONGEST_RECEIVER_PAUSE_SECONDS)
    const pauses = { firstMs: retryDelay * 1_000, longestMs: longest * 1_000 }
    const worker = startWorker({ boss, logger, queue, pauses }, options, handler)
    workers.set(worker, queue)
    return worker
  }

  return {
    async start() {
      await boss.start()
      if (supervise) await clock.start()
      await polling.start()
    },

    stop() {
      stopped ??= stop()
      return stopped
    },

    async send(tx, queue, jobs) {
      if (jobs.length === 0) return
      const rows = jobs.map(({ id, data, group, startAfter, startAfterSeconds }) => ({
        id,
        data,
        ...(group === undefined ? {} : { group: { id: group } }),
        ...(startAfter === undefined && startAfterSeconds === undefined ? {} : { startAfter: startAfter ?? startAfterSeconds }),
      }))
      await boss.insert(queue, rows, { db: { executeSql: (text, values) => tx.query(text, values) } })
    },

    async schedule(queue, cron, run) {
      await work(queue, SCHEDULED_WORK, async () => {
        await run().catch((error: unknown) =>
          logger.error({ err: error, queue }, 'a scheduled job failed; it runs again when it is next due'),
        )
        return 'done'
      })
      await boss.schedule(queue, cron)
    },

    work,
  }
}

// All other fields are PostgreSQL's, whose `detail` can contain the values of a row.
function logError(logger: Logger, { message, stack }: Error): void {
  logger.error({ err: { message, stack } }, 'the job queue had an error')
}

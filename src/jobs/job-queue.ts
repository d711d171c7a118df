import { createHash } from 'node:crypto'
import type pg from 'pg'
import { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'
import type { Queryable, Transaction } from '../db/pool.ts'
import { COMMAND_BOUNDS, SERVING_BOUNDS, type SessionBounds, setUpSession } from '../db/session-settings.ts'
import { sql } from '../db/sql.ts'
import { type Job, type JobOutcome, type JobWorker, POLL_SECONDS, startWorker, type WorkOptions } from './job-worker.ts'

/** A queue of jobs and how its jobs are retried: after `retryDelaySeconds`, then about twice as long each time. */
export interface QueueDefinition {
  name: string
  retryDelaySeconds: number
  /** The longest pause between two tries; 0 retries at once, for tests. */
  retryDelayMaxSeconds: number
  /** How long a job that is done or given up is kept to be looked at. */
  keepSeconds: number
}

export interface NewJob {
  /** A UUID. A job whose id the queue has already is dropped. */
  id: string
  data: object
  /** Not run before then; at once when it is missing. */
  startAfter?: Date
  /** Not before so long from the database's now. */
  startAfterSeconds?: number
  /** Jobs of one group are held to `WorkOptions.perGroup`. */
  group?: string
}

/** Jobs kept in PostgreSQL: run at least once, retried with growing pauses, by any process that works on the queue. */
export interface JobQueue {
  start(): Promise<void>
  /** Stops every worker first. What is still in hand then is run again later, here or elsewhere. Idempotent, safe before start. */
  stop(): Promise<void>
  /** Adds jobs in the caller's transaction, in one statement: they exist if it commits. */
  send(tx: Transaction, queue: string, jobs: readonly NewJob[]): Promise<void>
  /**
   * Has `run` done at the times of a cron expression (UTC), each time by one of the processes that schedule it. What goes wrong is
   * logged and left to the next time.
   */
  schedule(queue: string, cron: string, run: () => Promise<void>): Promise<void>
  work<Data extends object>(queue: string, options: WorkOptions, handler: (job: Job<Data>) => Promise<JobOutcome>): Promise<JobWorker>
}

export interface JobQueueOptions {
  url: string
  logger: Logger
  /** Whether this process also finds the jobs of dead processes and deletes old ones. On unless said otherwise. */
  supervise?: boolean
  /** How often it looks for those, 15 unless said otherwise. */
  superviseSeconds?: number
  /** Whether this process also sees to it that scheduled jobs come when they are due. Off unless said otherwise. */
  runsScheduler?: boolean
}

const APPLICATION_NAME = 'storefront-jobs'
const CONNECTIONS = 3
// The queue's own maintenance deletes old jobs by one statement.
const JOB_BOUNDS: SessionBounds = { ...SERVING_BOUNDS, statementMs: 600_000, transactionMs: 600_000 }
const SCHEDULED_WORK: WorkOptions = { batchSize: 1, concurrency: 1, fetchers: 1 }
// A job of a process that died is given out again after a missed heartbeat: 10 s is the least pg-boss allows.
const HEARTBEAT_SECONDS = 10
// How often it is looked whether a scheduled job is due.
const CLOCK_SECONDS = 10
const SUPERVISE_SECONDS = 15
const CLEANUP_SECONDS = 3_600
// A job waits for a worker as long as it takes: pg-boss would drop it after 14 days.
const RETENTION_SECONDS = 365 * 86_400
// A handler decides when to give up; this only ends a job that kills its process every time.
const RETRY_LIMIT = 1_000

/** A job id made of what the job is about: a UUIDv8 (RFC 9562 §5.8) of its SHA-256, so that the same job cannot be there twice. */
export function jobIdOf(subject: string): string {
  const bytes = createHash('sha256').update(subject).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Makes or upgrades the job queue's tables and its queues. Several processes may call it at once: pg-boss locks. */
export async function installJobQueues(options: JobQueueOptions & { queues: readonly QueueDefinition[] }): Promise<void> {
  const boss = createBoss({ ...options, supervise: false }, { migrate: true })
  boss.on('error', (error) => logError(options.logger, error))
  try {
    await boss.start()
    for (const queue of options.queues) await installQueue(boss, queue)
  } finally {
    await boss.stop({ graceful: false })
  }
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
  // Creating does nothing to a queue that exists: an upgrade's new settings come by this.
  await boss.updateQueue(queue.name, settings)
}

/** What waits in a queue. */
export interface QueueLength {
  queued: number
  /** How long the oldest that is due waits for its first try; 0 when none does. */
  oldestUntriedSeconds: number
}

export const EMPTY_QUEUE: QueueLength = { queued: 0, oldestUntriedSeconds: 0 }

/** The jobs of a queue that are neither done nor given up. */
export async function readJobQueue(db: Queryable, queue: string): Promise<QueueLength> {
  const { rows } = await db.query<QueueLength>(
    sql`select
      count(*) as queued,
      coalesce(greatest(extract(epoch from now() - min(start_after) filter (where state = 'created')), 0), 0)::float8 as "oldestUntriedSeconds"
    from pgboss.job
    where name = ${queue} and state <= 'active'`,
  )
  return rows[0] ?? EMPTY_QUEUE
}

/**
 * Queues the jobs again that were active in the copy which was restored, and would wait for a missed heartbeat. For a server that was started
 * with that copy: a job that is older than the server's start has no process.
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
 * Replaces what the jobs of a queue carry, of those that are done and kept as well; a job for which `change` gives null stays as it is.
 * Returns the numbers of both.
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

/** `migrate`: whether it also makes and upgrades its tables, which only their owner may. */
function createBoss(options: JobQueueOptions, { migrate }: { migrate: boolean }): PgBoss {
  const { supervise = true, superviseSeconds = SUPERVISE_SECONDS, runsScheduler = false } = options
  // Beyond the package's types: it hands all that it does not know to `pg.Pool`.
  const forPool = { onConnect: (client: pg.ClientBase) => setUpSession(client, migrate ? COMMAND_BOUNDS : JOB_BOUNDS) }
  return new PgBoss({
    ...forPool,
    connectionString: options.url,
    application_name: APPLICATION_NAME,
    max: CONNECTIONS,
    connectionTimeoutMillis: 5_000,
    migrate,
    schedule: runsScheduler,
    cronMonitorIntervalSeconds: CLOCK_SECONDS,
    cronWorkerIntervalSeconds: POLL_SECONDS,
    supervise,
    superviseIntervalSeconds: superviseSeconds,
    monitorIntervalSeconds: superviseSeconds,
    maintenanceIntervalSeconds: CLEANUP_SECONDS,
  })
}

/** The job queue of this process. `installJobQueues` must have run on the database before. */
export function createJobQueue(options: JobQueueOptions): JobQueue {
  const { logger } = options
  const boss = createBoss(options, { migrate: false })
  const workers = new Set<JobWorker>()
  let stopped: Promise<void> | undefined
  boss.on('error', (error) => {
    // After the stop these are only the last words of what was cut off.
    if (stopped === undefined) logError(logger, error)
  })
  boss.on('warning', (warning) => logger.warn({ warning: warning.message }, 'the job queue warns'))

  async function stop(): Promise<void> {
    await Promise.all([...workers].map((worker) => worker.stop()))
    await boss.stop({ graceful: false })
  }

  async function work<Data extends object>(queue: string, options: WorkOptions, handler: (job: Job<Data>) => Promise<JobOutcome>) {
    if ((await boss.getQueue(queue)) === null) {
      throw new Error(`the job queue ${queue} is not installed in this database; run storefront migrate`)
    }
    const worker = await startWorker(boss, logger, queue, options, handler)
    workers.add(worker)
    return worker
  }

  return {
    async start() {
      await boss.start()
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

// All other fields are PostgreSQL's, whose `detail` can hold the values of a row.
function logError(logger: Logger, { message, stack }: Error): void {
  logger.error({ err: { message, stack } }, 'the job queue had an error')
}

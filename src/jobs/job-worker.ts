import type { Job as FetchedJob, PgBoss } from 'pg-boss'
import type { Logger } from 'pino'
import { every, Loop } from '../loop.ts'
import { withinMs } from '../within-ms.ts'
import { DeferredJobs } from './deferred-jobs.ts'
import { groupCalls } from './group-calls.ts'
import { type ReceiverPauses, type ReceiverShare, Receivers } from './receivers.ts'

export type { ReceiverShare }

export interface Job<Data> {
  id: string
  data: Data
  /** How often it was fetched before, also by processes that ended meanwhile. */
  retryCount: number
}

/** `retry` runs the job again after a pause, `failed` never. A handler that throws means `retry`. */
export type JobOutcome = 'done' | 'retry' | 'failed'

/** A handler that has asked the job's receiver says how that went. */
export type ReportHealth = (health: 'well' | 'failing') => void

export type JobHandler<Data> = (job: Job<Data>, report: ReportHealth) => Promise<JobOutcome>

export interface WorkOptions {
  /** Jobs that are in this process at once. Each one's outcome is stored when it has ended. */
  places: number
  /** How the places are shared by the receivers that `NewJob.group` names; jobs without one run as they come. */
  share?: ReceiverShare
}

/** The worker of this process on one queue. */
export interface JobWorker {
  /** Fetches jobs now. */
  wake(): void
  /** What all jobs of the queue need was unavailable for `outageMs` and is back: those that failed meanwhile run now. */
  endPauses(outageMs: number): void
  /** Fetches no more jobs and waits for the running ones, five seconds at most. Idempotent. */
  stop(): Promise<void>
}

/** A worker is woken for jobs that are due; this bounds the delay of one that nothing announces. */
const POLL_MS = 60_000
const RETRY_MS = 2_000
const STOP_PATIENCE_MS = 5_000
/** Half of the queue's heartbeat. */
const HEARTBEAT_MS = 5_000
/** Deferred jobs of other receivers wait so long for a place that has become free. */
const RELEASE_MS = 50
const FETCH_AT_ONCE = 100
/** A full process waits until this many of its places are free before it fetches again. */
const FREE_PLACES = 32
const NO_SHARE: ReceiverShare = {
  perReceiver: Number.POSITIVE_INFINITY,
  suspects: Number.POSITIVE_INFINITY,
  slowMs: Number.POSITIVE_INFINITY,
}

/** A job that was fetched, and waits for its receiver or runs. */
type Held<Data> = FetchedJob<Data> & { retryCount: number; groupId?: string | null }

interface Ended {
  job: Held<unknown>
  outcome: JobOutcome
}

export interface WorkerContext {
  boss: PgBoss
  logger: Logger
  queue: string
  pauses: ReceiverPauses
}

/**
 * Starts a worker on a queue. When the handler throws, the error is logged and the job retried. Jobs that cannot begin because their receiver
 * is new, slow or failing are deferred in the queue, where they hold up no other: decision 0340.
 */
export function startWorker<Data extends object>(context: WorkerContext, options: WorkOptions, handler: JobHandler<Data>): JobWorker {
  const worker = new Worker<Data>(context, options, handler)
  worker.start()
  return worker
}

class Worker<Data extends object> implements JobWorker {
  readonly #boss: PgBoss
  readonly #logger: Logger
  readonly #queue: string
  readonly #options: WorkOptions
  readonly #handler: JobHandler<Data>
  readonly #receivers: Receivers
  readonly #deferred: DeferredJobs
  readonly #loop: Loop
  #endHeartbeat = () => {}
  #stopped: Promise<void> | undefined
  readonly #running = new Set<Held<Data>>()
  readonly #ends = new Set<Promise<void>>()
  #waiting: Held<Data>[] = []
  /** The queue has more jobs than were fetched. */
  #hasMore = false
  /** How long the outages of receivers were that have ended; null for what all receivers share. */
  #back = new Map<string | null, number>()
  #releasing: NodeJS.Timeout | undefined
  #isBroken = false
  readonly #storeOutcome: (ended: Ended) => Promise<null>

  constructor({ boss, logger, queue, pauses }: WorkerContext, options: WorkOptions, handler: JobHandler<Data>) {
    this.#boss = boss
    this.#logger = logger
    this.#queue = queue
    this.#options = options
    this.#loop = new Loop({
      everyMs: POLL_MS,
      retryMs: RETRY_MS,
      work: async () => ((await this.#round()) ? 0 : POLL_MS),
      onFailure: (error) => this.#report(error as Error),
    })
    this.#handler = handler
    this.#receivers = new Receivers(options.share ?? NO_SHARE, pauses)
    this.#deferred = new DeferredJobs(boss.getDb(), queue)
    this.#storeOutcome = groupCalls(async (ended) => {
      await this.#store(ended)
      return ended.map(() => null)
    }, options.places)
  }

  wake(): void {
    this.#loop.wake()
  }

  endPauses(outageMs: number): void {
    this.#receivers.forgive()
    this.#isBack(null, outageMs)
    this.#loop.wake()
  }

  #isBack(receiver: string | null, outageMs: number): void {
    this.#back.set(receiver, Math.max(outageMs, this.#back.get(receiver) ?? 0))
  }

  start(): void {
    void this.#loop.start()
    this.#endHeartbeat = every(HEARTBEAT_MS, () => void this.#beat())
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    await this.#loop.stop()
    clearTimeout(this.#releasing)
    await this.#putBack(this.#waiting.splice(0))
    await withinMs(STOP_PATIENCE_MS, Promise.all(this.#ends), null)
    this.#endHeartbeat()
    // They run again now, and not after a missed heartbeat.
    if (this.#running.size > 0) await this.#boss.fail(this.#queue, [...this.#running]).catch((error: Error) => this.#report(error))
  }

  /** Returns whether there may be more to do at once. */
  async #round(): Promise<boolean> {
    if (this.#options.share !== undefined) await this.#releaseDeferred()
    const wanted = this.#freePlaces
    const jobs = wanted === 0 ? [] : ((await this.#boss.fetch<Data>(this.#queue, { batchSize: wanted, minPriority: 0 })) as Held<Data>[])
    this.#hasMore = jobs.length === wanted
    // A receiver is asked first by the jobs that were tried least, and not each time by one that it never takes.
    this.#waiting.push(...jobs.toSorted((a, b) => a.retryCount - b.retryCount))
    if (this.#loop.isStopped) return false
    this.#begin()
    await this.#deferWaiting()
    if (this.#isBroken) this.#logger.info({ queue: this.#queue }, 'the job queue works again')
    this.#isBroken = false
    return this.#hasMore && wanted > 0
  }

  get #freePlaces(): number {
    return Math.min(this.#options.places - this.#running.size, FETCH_AT_ONCE)
  }

  /** Begins the waiting jobs whose receivers have room. */
  #begin(): void {
    this.#waiting = this.#waiting.filter((job) => {
      const receiver = job.groupId ?? null
      if (this.#freePlaces === 0 || (receiver !== null && this.#receivers.room(receiver) < 1)) return true
      const end = this.#run(job, receiver).finally(() => this.#ends.delete(end))
      this.#ends.add(end)
      return false
    })
  }

  async #run(job: Held<Data>, receiver: string | null): Promise<void> {
    const { slowMs } = this.#options.share ?? NO_SHARE
    this.#running.add(job)
    if (receiver !== null) this.#receivers.began(receiver)
    const slow = receiver === null || slowMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(() => this.#slow(receiver), slowMs)
    const began = performance.now()
    let health: Parameters<ReportHealth>[0] | null = null
    const report: ReportHealth = (reported) => {
      health = reported
    }
    const outcome = await this.#outcomeOf(job, report)
    clearTimeout(slow)
    const outageMs = receiver === null ? null : this.#receivers.ended(receiver, health, performance.now() - began)
    if (outageMs !== null) this.#isBack(receiver, outageMs)
    await this.#storeOutcome({ job, outcome }).catch((error: Error) => this.#report(error))
    this.#running.delete(job)
    if (this.#loop.isStopped) return
    this.#begin()
    const isWorthFetching = this.#freePlaces >= Math.min(FREE_PLACES, this.#options.places / 2)
    if ((this.#hasMore && isWorthFetching) || this.#back.size > 0 || this.#isReleasable(receiver)) this.#loop.wake()
    else if (this.#deferred.receivers().size > 0) this.#releaseSoon()
  }

  #isReleasable(receiver: string | null): boolean {
    if (receiver === null || !this.#deferred.receivers().has(receiver)) return false
    const held = this.#waiting.filter(({ groupId }) => groupId === receiver).length
    return this.#receivers.releasable(receiver, held, this.#receivers.suspectRoom) > 0
  }

  /** Looks for jobs of other receivers that the ended one has made room for: it looks at all of them, and so not after each job. */
  #releaseSoon(): void {
    this.#releasing ??= setTimeout(() => {
      this.#releasing = undefined
      this.#loop.wake()
    }, RELEASE_MS)
  }

  async #outcomeOf(job: Held<Data>, report: ReportHealth): Promise<JobOutcome> {
    try {
      return await this.#handler(job, report)
    } catch (error) {
      this.#logger.error({ err: error, queue: this.#queue, job: job.id }, 'a job threw an error and is retried')
      return 'retry'
    }
  }

  #slow(receiver: string): void {
    this.#receivers.slow(receiver)
    if (this.#waiting.some((job) => job.groupId === receiver)) this.#loop.wake()
  }

  /** Gives jobs back to the queue that cannot begin soon, and defers those of the same receivers that would be fetched next. */
  async #deferWaiting(): Promise<void> {
    const kept = new Map<string, number>()
    const stuck: Held<Data>[] = []
    this.#waiting = this.#waiting.filter((job) => {
      if (job.groupId == null) return true
      const before = kept.get(job.groupId) ?? 0
      const mayWait = before < this.#receivers.maxWaiting(job.groupId)
      if (mayWait) kept.set(job.groupId, before + 1)
      else stuck.push(job)
      return mayWait
    })
    if (stuck.length === 0) return
    await this.#deferred.defer(stuck)
    if (this.#hasMore) await this.#deferred.deferNext(new Set(stuck.map(({ groupId }) => groupId ?? '')))
  }

  async #releaseDeferred(): Promise<void> {
    await this.#deferred.find()
    const back = this.#back
    this.#back = new Map()
    let areLast = false
    try {
      areLast = await this.#deferred.endPauses(back)
    } finally {
      if (!areLast) for (const [receiver, outageMs] of back) this.#isBack(receiver, outageMs)
    }
    await this.#deferred.release(this.#releasable())
  }

  /** How many deferred jobs of each receiver this process can take. */
  #releasable(): Map<string, number> {
    const releasable = new Map<string, number>()
    if (this.#deferred.receivers().size === 0) return releasable
    const waiting = Map.groupBy(this.#waiting, ({ groupId }) => groupId)
    let places = this.#freePlaces
    let { suspectRoom } = this.#receivers
    for (const receiver of this.#deferred.receivers()) {
      if (places === 0) break
      const jobs = Math.min(this.#receivers.releasable(receiver, waiting.get(receiver)?.length ?? 0, suspectRoom), places)
      if (jobs <= 0) continue
      if (this.#receivers.isSuspect(receiver)) suspectRoom -= jobs
      places -= jobs
      releasable.set(receiver, jobs)
    }
    return releasable
  }

  async #putBack(jobs: readonly Held<Data>[]): Promise<void> {
    if (jobs.length > 0) await this.#deferred.putBack(jobs).catch((error: Error) => this.#report(error))
  }

  async #store(ended: readonly Ended[]): Promise<void> {
    const jobsOf = (outcome: JobOutcome) => ended.filter((each) => each.outcome === outcome).map(({ job }) => job)
    const [done, retried, failed] = [jobsOf('done'), jobsOf('retry'), jobsOf('failed')]
    if (done.length > 0) await this.#boss.complete(this.#queue, done)
    if (retried.length > 0) await this.#boss.fail(this.#queue, retried)
    if (failed.length > 0) await this.#deferred.fail(failed)
  }

  async #beat(): Promise<void> {
    const held = [...this.#running, ...this.#waiting]
    if (held.length > 0) await this.#boss.touch(this.#queue, held).catch((error: Error) => this.#report(error))
  }

  /** Logs the first error of an outage. */
  #report({ message, stack }: Error): void {
    if (this.#isBroken || this.#loop.isStopped) return
    // All other fields are PostgreSQL's, whose `detail` can contain the values of a row.
    this.#logger.error({ err: { message, stack }, queue: this.#queue }, 'the job queue had an error')
    this.#isBroken = true
  }
}

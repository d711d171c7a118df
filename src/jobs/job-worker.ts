import type { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'

export interface Job<Data> {
  id: string
  data: Data
  /** How often it was fetched before, also by processes that ended meanwhile. */
  retryCount: number
}

/** `retry` runs the job again after a pause, `failed` never. A handler that throws means `retry`. */
export type JobOutcome = 'done' | 'retry' | 'failed'

export interface WorkOptions {
  /** Jobs fetched at once. Each has its own outcome; all outcomes are stored when the last job of the batch has ended. */
  batchSize: number
  /** Jobs of a batch that run at once. */
  concurrency: number
  /** Batches that run at once in this process: a slow job delays only its own batch. */
  fetchers: number
  /** Jobs of one group that run at once in this process, at most `fetchers`; unbounded when missing. */
  perGroup?: number
  /** How often each fetcher looks for jobs; POLL_SECONDS when missing. */
  pollSeconds?: number
}

/** The worker of this process on one queue. */
export interface JobWorker {
  /** Fetches jobs now instead of at the next poll. */
  wake(): void
  /** Fetches no more jobs and waits for the running ones, five seconds at most. Idempotent. */
  stop(): Promise<void>
}

const POLL_SECONDS = 1
const STOP_PATIENCE_MS = 5_000

/** Starts a worker on a queue. When the handler throws, the error is logged and the job retried. */
export async function startWorker<Data extends object>(
  boss: PgBoss,
  logger: Logger,
  queue: string,
  options: WorkOptions,
  handler: (job: Job<Data>) => Promise<JobOutcome>,
): Promise<JobWorker> {
  const { batchSize, fetchers, perGroup, pollSeconds = POLL_SECONDS } = options
  // pg-boss applies a group's bound to the fetchers of one call, of which `wake` reaches only the first.
  const calls = perGroup === undefined ? fetchers : 1
  const fetching = {
    batchSize,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: pollSeconds,
    ...(perGroup === undefined ? {} : { localConcurrency: fetchers, localGroupConcurrency: perGroup }),
  }
  const ids: string[] = []
  for (let i = 0; i < calls; i++) {
    const id = await boss.work<Data, unknown, typeof fetching & { perJobResults: true }>(
      queue,
      { ...fetching, perJobResults: true },
      async (jobs) =>
        mapWithConcurrency(jobs, options.concurrency, async (job) => ({ id: job.id, status: STATUSES[await outcomeOf(job)] })),
    )
    ids.push(id)
  }

  async function outcomeOf(job: Job<Data> & { signal: AbortSignal }): Promise<JobOutcome> {
    // The queue is stopping, or another process has the job by now.
    if (job.signal.aborted) return 'retry'
    try {
      return await handler(job)
    } catch (error) {
      logger.error({ err: error, queue, job: job.id }, 'a job threw an error and is retried')
      return 'retry'
    }
  }

  let stopped: Promise<unknown> | undefined
  return {
    wake() {
      for (const id of ids) boss.notifyWorker(id)
    },
    async stop() {
      stopped ??= withinMs(STOP_PATIENCE_MS, Promise.all(ids.map((id) => boss.offWork(queue, { id, wait: true }))))
      await stopped
    },
  }
}

// pg-boss retries `failed`; its `deadletter` is final and, as no queue here has a dead-letter queue, leaves the job as
// failed.
const STATUSES = { done: 'completed', retry: 'failed', failed: 'deadletter' } as const satisfies Record<JobOutcome, string>

async function mapWithConcurrency<T, R>(items: readonly T[], concurrency: number, run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const rest = items.values()
  const worker = async () => {
    for (const item of rest) results.push(await run(item))
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  return results
}

async function withinMs(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  await Promise.race([work, promise]).finally(() => clearTimeout(timer))
}

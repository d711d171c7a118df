import type { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'

export interface Job<Data> {
  id: string
  data: Data
}

/** `retry` puts the job back for later, `failed` parks it for good. A handler that throws means `retry`. */
export type JobOutcome = 'done' | 'retry' | 'failed'

export interface WorkOptions {
  /** Jobs fetched at once. Each job is settled on its own; all are settled when the last of them has ended. */
  batchSize: number
  /** Jobs of a batch in hand at once. */
  concurrency: number
  /** Batches in hand at once in this process, so that one slow job holds up no more than its own batch. */
  fetchers: number
  /** Jobs of one group in hand at once in this process, at most `fetchers`; no bound when it is missing. */
  perGroup?: number
}

/** The work of this process on one queue. */
export interface JobWorker {
  /** Looks for jobs now, where otherwise they are found within a second. */
  wake(): void
  /** Takes no more jobs and waits for those in hand, five seconds at most. Idempotent. */
  stop(): Promise<void>
}

/** How often a worker looks for jobs. */
export const POLL_SECONDS = 1
const STOP_PATIENCE_MS = 5_000

/** Works on a queue: a handler that throws has its job tried again. */
export async function startWorker<Data extends object>(
  boss: PgBoss,
  logger: Logger,
  queue: string,
  options: WorkOptions,
  handler: (job: Job<Data>) => Promise<JobOutcome>,
): Promise<JobWorker> {
  const { batchSize, fetchers, perGroup } = options
  // pg-boss bounds a group over the fetchers of one call; of those, `wake` would reach the first only.
  const calls = perGroup === undefined ? fetchers : 1
  const fetching = {
    batchSize,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: POLL_SECONDS,
    ...(perGroup === undefined ? {} : { localConcurrency: fetchers, localGroupConcurrency: perGroup }),
  }
  const ids: string[] = []
  for (let i = 0; i < calls; i++) {
    const id = await boss.work<Data, unknown, typeof fetching & { perJobResults: true }>(
      queue,
      { ...fetching, perJobResults: true },
      async (jobs) => inLanes(jobs, options.concurrency, async (job) => ({ id: job.id, status: STATUSES[await outcomeOf(job)] })),
    )
    ids.push(id)
  }

  async function outcomeOf(job: Job<Data> & { signal: AbortSignal }): Promise<JobOutcome> {
    // The queue is stopping, or has given the job to somebody else.
    if (job.signal.aborted) return 'retry'
    try {
      return await handler(job)
    } catch (error) {
      logger.error({ err: error, queue, job: job.id }, 'a job threw an error and is tried again')
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

// pg-boss's `failed` is retried and its `deadletter` is final; no queue here has a dead-letter queue, so the job stays as failed.
const STATUSES = { done: 'completed', retry: 'failed', failed: 'deadletter' } as const satisfies Record<JobOutcome, string>

async function inLanes<T, R>(items: readonly T[], lanes: number, run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const rest = items.values()
  const lane = async () => {
    for (const item of rest) results.push(await run(item))
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return results
}

async function withinMs(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  await Promise.race([work, promise]).finally(() => clearTimeout(timer))
}

import { Worker } from 'node:worker_threads'
import { AppError } from '../../errors.ts'

export interface HashingOptions {
  /** Hashes in hand at once. */
  threads: number
  /** Hashes waiting; past this many `unavailable` is thrown. */
  maxWaiting: number
}

/** Of argon2id (RFC 9106); as node:crypto names them. */
export interface HashingParameters {
  message: Uint8Array
  nonce: Uint8Array
  /** KiB. */
  memory: number
  passes: number
  parallelism: number
  tagLength: number
}

interface Job {
  parameters: HashingParameters
  resolve: (tag: Buffer) => void
  reject: (error: unknown) => void
}

// A full queue is worked off within a few seconds.
const RETRY_AFTER_SECONDS = '5'
const THREAD = new URL('hashing-thread.mjs', import.meta.url)

/**
 * Threads of low priority that hash: they take every core that nothing else wants, and give it back when a request comes in.
 * libuv's threads would be at the same priority as the event loop, and files and names are waited for there.
 */
export class HashingThreads {
  readonly #options: HashingOptions
  readonly #idle: Worker[] = []
  readonly #busy = new Map<Worker, Job>()
  readonly #waiting: Job[] = []

  constructor(options: HashingOptions) {
    this.#options = options
  }

  derive(parameters: HashingParameters): Promise<Buffer> {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
    const job = { parameters, resolve, reject }
    const worker = this.#idle.pop() ?? (this.#busy.size < this.#options.threads ? this.#startThread() : undefined)
    if (worker !== undefined) this.#give(worker, job)
    else if (this.#waiting.length < this.#options.maxWaiting) this.#waiting.push(job)
    else reject(tooManyWaiting())
    return promise
  }

  /** Ends the threads; for when nobody waits for a hash any more. Later hashes start others. */
  async stop(): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((worker) => worker.terminate()))
  }

  #startThread(): Worker {
    const worker = new Worker(THREAD, { name: 'hashing' })
    worker.on('message', (answer: { tag: Uint8Array } | { error: string }) => {
      this.#settle(worker, (job) => ('tag' in answer ? job.resolve(Buffer.from(answer.tag)) : job.reject(new Error(answer.error))))
      const next = this.#waiting.shift()
      if (next === undefined) this.#idle.push(worker)
      else this.#give(worker, next)
    })
    // Out of memory, most likely. What waits is taken up by the threads that are left, or by the next hash.
    worker.on('error', (error) => this.#settle(worker, (job) => job.reject(error)))
    worker.on('exit', () => {
      const index = this.#idle.indexOf(worker)
      if (index >= 0) this.#idle.splice(index, 1)
      const next = this.#waiting.shift()
      if (next !== undefined) this.#give(this.#startThread(), next)
    })
    return worker
  }

  #give(worker: Worker, job: Job): void {
    this.#busy.set(worker, job)
    // Only a hash in hand keeps the process alive.
    worker.ref()
    worker.postMessage(job.parameters)
  }

  #settle(worker: Worker, answer: (job: Job) => void): void {
    const job = this.#busy.get(worker)
    this.#busy.delete(worker)
    worker.unref()
    if (job !== undefined) answer(job)
  }
}

function tooManyWaiting(): AppError {
  return new AppError('unavailable', 'Too many people are logging in at this moment. Try again shortly.', {
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
  })
}

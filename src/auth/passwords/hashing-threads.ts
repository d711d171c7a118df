import type { Argon2Parameters } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { AppError } from '../../errors.ts'
import type { ForeignDerivation } from './foreign-hash.ts'

export interface HashingOptions {
  /** The most hashes in flight. */
  threads: number
  /** The most waiting hashes. Further ones throw `overloaded`. */
  maxWaiting: number
}

/** Argon2id, unless another system's scheme is named. */
export type Derivation = Argon2Parameters | ForeignDerivation

interface Job {
  parameters: Derivation
  resolve: (tag: Buffer) => void
  reject: (error: unknown) => void
}

// A full queue is empty again after a few seconds.
const RETRY_LATER = { headers: { 'retry-after': '5' } }
const THREAD = new URL('hashing-thread.mjs', import.meta.url)

/**
 * Hashes in low-priority threads. libuv's threads have the event loop's priority, and file and DNS operations wait for
 * them.
 */
export class HashingThreads {
  readonly #options: HashingOptions
  readonly #idle: Worker[] = []
  readonly #busy = new Map<Worker, Job>()
  readonly #waiting: Job[] = []

  constructor(options: HashingOptions) {
    this.#options = options
  }

  derive(parameters: Derivation): Promise<Buffer> {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
    const job = { parameters, resolve, reject }
    const worker = this.#idle.pop() ?? (this.#busy.size < this.#options.threads ? this.#startThread() : undefined)
    if (worker !== undefined) this.#assign(worker, job)
    else if (this.#waiting.length < this.#options.maxWaiting) this.#waiting.push(job)
    else reject(new AppError('overloaded', 'Too many people are logging in at this moment. Retry in a moment.', RETRY_LATER))
    return promise
  }

  /** Ends the idle threads. A later hash starts another one. */
  async stop(): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((worker) => worker.terminate()))
  }

  #startThread(): Worker {
    const worker = new Worker(THREAD, { name: 'hashing' })
    worker.on('message', (answer: { tag: Uint8Array } | { error: string }) => {
      this.#finish(worker, (job) => ('tag' in answer ? job.resolve(Buffer.from(answer.tag)) : job.reject(new Error(answer.error))))
      const next = this.#waiting.shift()
      if (next === undefined) this.#idle.push(worker)
      else this.#assign(worker, next)
    })
    // The thread is probably out of memory. Other threads, or the next hash, take the waiting hashes.
    worker.on('error', (error) => this.#finish(worker, (job) => job.reject(error)))
    worker.on('exit', () => {
      const index = this.#idle.indexOf(worker)
      if (index >= 0) this.#idle.splice(index, 1)
      const next = this.#waiting.shift()
      if (next !== undefined) this.#assign(this.#startThread(), next)
    })
    return worker
  }

  #assign(worker: Worker, job: Job): void {
    this.#busy.set(worker, job)
    // A thread keeps the process alive only while it hashes.
    worker.ref()
    worker.postMessage(job.parameters)
  }

  #finish(worker: Worker, answer: (job: Job) => void): void {
    const job = this.#busy.get(worker)
    this.#busy.delete(worker)
    worker.unref()
    if (job !== undefined) answer(job)
  }
}

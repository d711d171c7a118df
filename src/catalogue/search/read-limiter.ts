import { overloaded, type ShedClass } from '../../http/load-shedder.ts'

export interface ReadLimits {
  /** Of the requests that are refused. */
  loadClass: ShedClass
  /** Reads that run at once. */
  places: number
  /** Reads that may wait for a place. The next one is refused with `overloaded`. */
  maxWaiting: number
  /** A read that waits longer is refused with `overloaded`. */
  waitMs: number
}

/** Bounds the reads that run at once. Others wait in the order of arrival. */
export class ReadLimiter {
  readonly #limits: ReadLimits
  #running = 0
  readonly #waiting = new Set<() => void>()

  constructor(limits: ReadLimits) {
    this.#limits = limits
  }

  /** The share of `maxWaiting` that waits. */
  get fullness(): number {
    return this.#waiting.size / this.#limits.maxWaiting
  }

  /** Runs `read` when there is a place. Throws `overloaded` when too many reads wait, or this one has waited too long. */
  async admit<T>(read: () => Promise<T>): Promise<T> {
    await this.#takePlace()
    try {
      return await read()
    } finally {
      this.#releasePlace()
    }
  }

  async #takePlace(): Promise<void> {
    const { places, maxWaiting, waitMs } = this.#limits
    if (this.#running < places) {
      this.#running++
      return
    }
    if (this.#waiting.size >= maxWaiting) throw this.#refusal()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    const timer = setTimeout(() => {
      if (this.#waiting.delete(resolve)) reject(this.#refusal())
    }, waitMs)
    await promise.finally(() => clearTimeout(timer))
  }

  #refusal() {
    return overloaded(this.#limits.loadClass, 'Too many requests read the catalogue at this moment.')
  }

  #releasePlace(): void {
    const [next] = this.#waiting
    if (next === undefined) this.#running--
    else {
      this.#waiting.delete(next)
      next()
    }
  }
}

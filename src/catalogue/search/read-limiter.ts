import { AppError } from '../../errors.ts'

export interface ReadLimits {
  /** Reads that run at once. */
  places: number
  /** Reads that may wait for a place. The next one is refused with `unavailable`. */
  maxWaiting: number
  /** A read that waits longer is refused with `unavailable`. */
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

  /** Runs `read` when there is a place. Throws `unavailable` when too many reads wait, or this one has waited too long. */
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
    if (this.#waiting.size >= maxWaiting) throw tooManyReads()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    const timer = setTimeout(() => {
      if (this.#waiting.delete(resolve)) reject(tooManyReads())
    }, waitMs)
    await promise.finally(() => clearTimeout(timer))
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

function tooManyReads(): AppError {
  return new AppError('unavailable', 'Too many requests read the catalogue at this moment. Try again shortly.')
}

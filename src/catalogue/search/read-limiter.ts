import { AppError } from '../../errors.ts'

export interface ReadLimits {
  /** Reads that run at once. */
  places: number
  /** Reads that wait for a place; beyond them `unavailable` is thrown. */
  maxWaiting: number
  /** A read that waits longer for its place is refused as well. */
  waitMs: number
}

/** Bounds how many reads run at once. The others wait in the order in which they came. */
export class ReadLimiter {
  readonly #limits: ReadLimits
  #running = 0
  readonly #waiting = new Set<() => void>()

  constructor(limits: ReadLimits) {
    this.#limits = limits
  }

  /** Throws `unavailable` when too many reads wait, and when this one has waited for too long. */
  async admit<T>(read: () => Promise<T>): Promise<T> {
    await this.#takePlace()
    try {
      return await read()
    } finally {
      this.#passOn()
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

  #passOn(): void {
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

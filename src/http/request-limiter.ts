import { FairQueue, type QuotaKey } from './fair-queue.ts'
import { overloaded } from './load-shedder.ts'
import type { ShedClass } from './request-cost.ts'

export interface RequestLimits {
  loadClass: ShedClass
  places: number
  /**
   * The most waiting requests. Above it, the newest request of the network with the most requests gets `overloaded`.
   */
  maxWaiting: number
  waitMs: number
}

interface Waiting {
  quotaKey: QuotaKey
  begin: () => void
  refuse: (error: Error) => void
}

/** An account or a network has at most half of the places. Others wait, and take turns. */
export class RequestLimiter {
  readonly #limits: RequestLimits
  readonly #placesOfOne: number
  #running = 0
  readonly #runningOf = new Map<string, number>()
  readonly #waiting = new FairQueue<Waiting>()

  constructor(limits: RequestLimits) {
    this.#limits = limits
    this.#placesOfOne = Math.max(1, Math.floor(limits.places / 2))
  }

  /** The smaller share of `maxWaiting` and `waitMs`. Each network counts once, so one network cannot raise it alone. */
  get fullness(): number {
    const { maxWaiting, waitMs } = this.#limits
    return Math.min(this.#waiting.owners / maxWaiting, this.#waiting.turnWaitMs(this.#isReady) / waitMs)
  }

  /** Throws `overloaded` when too many requests wait, or this one has waited too long. */
  async admit<T>(quotaKey: QuotaKey, work: () => Promise<T>): Promise<T> {
    await this.#takePlace(quotaKey)
    try {
      return await work()
    } finally {
      this.#running--
      for (const one of quotaKey) {
        const left = (this.#runningOf.get(one) ?? 0) - 1
        if (left > 0) this.#runningOf.set(one, left)
        else this.#runningOf.delete(one)
      }
      this.#beginNext()
    }
  }

  async #takePlace(quotaKey: QuotaKey): Promise<void> {
    if (this.#running < this.#limits.places && this.#mayRun(quotaKey)) {
      this.#count(quotaKey)
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting = { quotaKey, begin: resolve, refuse: reject }
    this.#waiting.push(quotaKey, waiting)
    if (this.#waiting.length > this.#limits.maxWaiting) this.#waiting.dropFromHeaviest()?.refuse(this.#refusal())
    const timer = setTimeout(() => {
      if (this.#waiting.remove(quotaKey, waiting)) reject(this.#refusal())
    }, this.#limits.waitMs)
    await promise.finally(() => clearTimeout(timer))
  }

  #beginNext(): void {
    for (const next of this.#waiting.take(this.#isReady, () => this.#running < this.#limits.places)) {
      this.#count(next.quotaKey)
      next.begin()
      if (this.#running >= this.#limits.places) return
    }
  }

  readonly #isReady = ({ quotaKey }: Waiting) => this.#mayRun(quotaKey)

  #mayRun(quotaKey: QuotaKey): boolean {
    return quotaKey.every((one) => (this.#runningOf.get(one) ?? 0) < this.#placesOfOne)
  }

  #count(quotaKey: QuotaKey): void {
    this.#running++
    for (const one of quotaKey) this.#runningOf.set(one, (this.#runningOf.get(one) ?? 0) + 1)
  }

  #refusal() {
    return overloaded(this.#limits.loadClass, 'Too many requests of this kind wait for an answer at this moment.')
  }
}

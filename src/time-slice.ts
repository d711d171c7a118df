import { setImmediate as nextTurn } from 'node:timers/promises'

const SLICE_MS = 4

/**
 * Splits long work into slices. Call `if (slice.isOver) await slice.next()` after each step. Steps are not interrupted,
 * so they must be short.
 */
export class TimeSlice {
  #beganAt = performance.now()

  get isOver(): boolean {
    return performance.now() - this.#beganAt > SLICE_MS
  }

  async next(): Promise<void> {
    await nextTurn()
    this.#beganAt = performance.now()
  }
}

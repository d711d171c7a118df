import { setImmediate as nextTurn } from 'node:timers/promises'

const SLICE_MS = 4

/** `if (slice.isOver) await slice.next()` after each step. A step is not interrupted, so steps must be short. */
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

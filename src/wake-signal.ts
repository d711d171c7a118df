/** A signal for one waiting caller. A notification without a waiting caller is kept until the next wait. */
export class WakeSignal {
  #isNotified = false
  #wake: () => void = () => {}

  /** Wakes the waiting caller. May be passed as a listener. */
  readonly notify = (): void => {
    this.#isNotified = true
    this.#wake()
  }

  /** Forgets earlier notifications. Call before reading what they announce. */
  reset(): void {
    this.#isNotified = false
  }

  /**
   * Waits for a notification. Returns at once after a notification since the last reset. With `ref: false`, the process
   * may end meanwhile.
   */
  async wait(ms: number, signal?: AbortSignal, { ref = true }: { ref?: boolean } = {}): Promise<void> {
    if (this.#isNotified || signal?.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    const timer = setTimeout(resolve, ms)
    if (!ref) timer.unref()
    signal?.addEventListener('abort', this.#wake)
    await promise
    clearTimeout(timer)
    signal?.removeEventListener('abort', this.#wake)
  }
}

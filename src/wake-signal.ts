/** A notification during a round is kept until the next wait. */
export class WakeSignal {
  #isNotified = false
  #wake: () => void = () => {}

  /** May be passed as a listener. */
  readonly notify = (): void => {
    this.#isNotified = true
    this.#wake()
  }

  /** Forgets earlier notifications. Call before reading what they announce. */
  reset(): void {
    this.#isNotified = false
  }

  /**
   * Returns at once after a notification since the last reset. For one caller. With `ref: false`, the process may end.
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

const MAX_PAUSE = 32

/** Decides whether to assume the usual state: skips it for 1, 2, 4 … 32 batches after failures in a row. */
export class OptimisticBackoff {
  #pause = 1
  #turnsToSkip = 0

  get shouldTry(): boolean {
    return this.#turnsToSkip === 0
  }

  skipped(): void {
    this.#turnsToSkip -= 1
  }

  failed(): void {
    this.#turnsToSkip = this.#pause
    this.#pause = Math.min(2 * this.#pause, MAX_PAUSE)
  }

  succeeded(): void {
    this.#pause = 1
  }
}

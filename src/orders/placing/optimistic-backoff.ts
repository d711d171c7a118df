const MAX_PAUSE = 32

/** Whether to try what may fail and is then done in another way. After each failure in a row the pause is twice as many turns, 32 at most. */
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

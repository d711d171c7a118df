const LONGEST_PAUSE = 32

/**
 * Says whether to try what may fail and is then done in another way: after each failure in a row it is left out for twice as many turns.
 */
export class Caution {
  #pause = 1
  #left = 0

  /** Whether it is to be tried in this turn. */
  tries(): boolean {
    if (this.#left === 0) return true
    this.#left -= 1
    return false
  }

  failed(): void {
    this.#left = this.#pause
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE)
  }

  succeeded(): void {
    this.#pause = 1
  }
}

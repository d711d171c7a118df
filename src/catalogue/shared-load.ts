/** The most turns of a load, since each takes room in a queue. Callers of further networks share these turns. */
const MAX_TURNS = 4

/**
 * One load for several callers. It begins with the first of their turns, so no caller waits for the turn of a network
 * with many requests.
 */
export class SharedLoad<T> {
  readonly #result = Promise.withResolvers<T>()
  readonly #owners = new Set<string>()
  #refused = 0
  #isLoading = false

  /** Rejects with the error of the load, or of the last refused turn. */
  get result(): Promise<T> {
    return this.#result.promise
  }

  /**
   * Waits for a turn of the owner, in which the load begins. Returns false if the waiting turns are enough, or include
   * one of the owner.
   */
  waitForTurn(owner: string, admit: (work: () => Promise<void>) => Promise<void>, load: () => Promise<T>): boolean {
    if (this.#isLoading || this.#owners.has(owner) || this.#owners.size === MAX_TURNS) return false
    this.#owners.add(owner)
    const loadOnce = async () => {
      if (this.#isLoading) return
      this.#isLoading = true
      await load().then(this.#result.resolve, this.#result.reject)
    }
    admit(loadOnce).catch((error) => {
      this.#refused += 1
      if (!this.#isLoading && this.#refused === this.#owners.size) this.#result.reject(error)
    })
    return true
  }
}

/**
 * The most turns that wait for one load, because each takes room in a queue. Callers from further networks share these
 * turns.
 */
const MAX_TURNS = 4

/**
 * A load that several callers share. It begins with the first turn that any of them gets, so no caller waits for the
 * turn of a network with many requests.
 */
export class SharedLoad<T> {
  readonly #result = Promise.withResolvers<T>()
  readonly #owners = new Set<string>()
  #refused = 0
  #isLoading = false

  /** Rejects with the error of the load, or with the error of the last turn if all turns were refused. */
  get result(): Promise<T> {
    return this.#result.promise
  }

  /**
   * Waits for a turn of the owner, which starts the load. Returns false without waiting if the load has begun, if the
   * owner already waits for a turn, or if `MAX_TURNS` turns wait.
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

/** What is kept: `version` is the catalogue's that it was made from. */
export interface Cached<T> {
  version: number
  value: T
}

/**
 * Values by key, of one version of the catalogue at a time, in at most `maxBytes`: what has not been used for long goes first.
 * Addresses that mean the same key are remembered too, so that a repeated one need not be taken apart.
 */
export class PageCache<T extends { sizeBytes: number }> {
  readonly #maxBytes: number
  // Two generations instead of a list in order of use: a hit in the young one costs one look-up and moves nothing.
  #young = new Map<string, T>()
  #old = new Map<string, T>()
  #youngBytes = 0
  #keys = new Map<string, string>()
  #version = -1
  readonly #loading = new Map<string, Promise<Cached<T>>>()
  #generation = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** The value of an address that came before, if it is of this version. */
  findByAddress(address: string, version: number): T | undefined {
    if (version !== this.#version) return undefined
    const key = this.#keys.get(address)
    return key === undefined ? undefined : this.find(key, version)
  }

  find(key: string, version: number): T | undefined {
    if (version !== this.#version) return undefined
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.#keep(key, old)
    return old
  }

  /**
   * The value of `key`, made by `load` unless it is here in this version. Whoever asks while it is being made waits for the same.
   * `load` says which version it has read, this one or a newer one; nothing is kept under any other.
   */
  async get(key: string, version: number, load: () => Promise<Cached<T>>): Promise<T> {
    const found = this.find(key, version)
    if (found !== undefined) return found
    const loadingKey = `${version} ${key}`
    let loading = this.#loading.get(loadingKey)
    if (loading === undefined) {
      loading = load().finally(() => this.#loading.delete(loadingKey))
      this.#loading.set(loadingKey, loading)
    }
    const generation = this.#generation
    const loaded = await loading
    if (generation === this.#generation) this.#store(key, loaded)
    return loaded.value
  }

  /** Forgets every value, and keeps none that is being made now: versions start again from an earlier one. */
  clear(): void {
    this.#generation++
    this.#loading.clear()
    this.#empty(-1)
  }

  /** Remembers that `address` means `key`. */
  remember(address: string, key: string): void {
    // Each may be some kilobytes long, so their number is small beside that of the pages.
    if (this.#keys.size >= MAX_ADDRESSES) this.#keys.clear()
    if (address.length <= MAX_ADDRESS_LENGTH) this.#keys.set(address, key)
  }

  /** Counts what a value has grown by since it was stored. */
  grown(bytes: number): void {
    this.#youngBytes += bytes
    this.#rotate()
  }

  #store(key: string, { version, value }: Cached<T>): void {
    if (version < this.#version) return
    if (version > this.#version) this.#empty(version)
    if (!this.#young.has(key)) this.#keep(key, value)
  }

  #empty(version: number): void {
    this.#young.clear()
    this.#old.clear()
    this.#youngBytes = 0
    this.#version = version
  }

  #keep(key: string, value: T): void {
    this.#young.set(key, value)
    this.#youngBytes += value.sizeBytes
    this.#rotate()
  }

  #rotate(): void {
    if (this.#youngBytes < this.#maxBytes / 2) return
    this.#old = this.#young
    this.#young = new Map()
    this.#youngBytes = 0
  }
}

const MAX_ADDRESSES = 10_000
const MAX_ADDRESS_LENGTH = 500

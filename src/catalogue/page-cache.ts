import { AppError } from '../errors.ts'
import { SharedLoad } from './shared-load.ts'

/** A value and its catalogue version. */
export interface Cached<T> {
  version: number
  value: T
}

export interface Loader<T> {
  /** Who owns the turn: a network or an account. */
  owner: string
  /** Runs the work in a turn of the owner. Throws `overloaded`. */
  admit: (work: () => Promise<void>) => Promise<void>
  load: () => Promise<Cached<T>>
}

/**
 * Values of one catalogue version by key, in at most `maxBytes` with their keys. Evicts the least recently used first.
 * Remembers the keys of addresses too, so repeated addresses are not parsed again.
 */
export class PageCache<T extends { sizeBytes: number }> {
  readonly #maxBytes: number
  // Two generations replace a list in order of use. A hit in the young generation is one look-up and moves nothing.
  #young = new Map<string, T>()
  #old = new Map<string, T>()
  #youngBytes = 0
  #keys = new Map<string, string>()
  #version = -1
  readonly #loading = new Map<string, SharedLoad<Cached<T>>>()
  #generation = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** The value of a remembered address, if it is of this version. */
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
   * The value of `key`, from the cache or `load`. Concurrent callers share one load, which begins with their first
   * turn. `load` returns the version it has read, possibly newer than `version`. The value is cached under it.
   */
  async get(key: string, version: number, loader: Loader<T>): Promise<T> {
    const found = this.find(key, version)
    if (found !== undefined) return found
    const loadingKey = `${version} ${key}`
    const generation = this.#generation
    const shared = this.#loading.get(loadingKey) ?? this.#begin(loadingKey)
    const hasTurn = shared.waitForTurn(loader.owner, loader.admit, loader.load)
    try {
      const loaded = await shared.result
      if (generation === this.#generation) this.#store(key, loaded)
      return loaded.value
    } catch (error) {
      // Others' turns were refused, so this caller retries with its own.
      if (hasTurn || !isOverloaded(error)) throw error
      return this.get(key, version, loader)
    }
  }

  #begin(loadingKey: string): SharedLoad<Cached<T>> {
    const loading = new SharedLoad<Cached<T>>()
    const remove = () => this.#loading.delete(loadingKey)
    loading.result.then(remove, remove)
    this.#loading.set(loadingKey, loading)
    return loading
  }

  /** Drops every value, even those being loaded, because versions restart from an earlier one. */
  clear(): void {
    this.#generation++
    this.#loading.clear()
    this.#empty(-1)
  }

  /** Remembers that `address` means `key` in this version. Other versions may have other languages. */
  remember(address: string, key: string, version: number): void {
    if (version !== this.#version) return
    // A key may have some kilobytes, so the number of addresses is bounded.
    if (this.#keys.size >= MAX_ADDRESSES) this.#keys.clear()
    if (address.length <= MAX_ADDRESS_LENGTH) this.#keys.set(address, key)
  }

  /** Counts bytes that were added to a stored value. */
  addBytes(bytes: number): void {
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
    this.#keys.clear()
    this.#youngBytes = 0
    this.#version = version
  }

  #keep(key: string, value: T): void {
    this.#young.set(key, value)
    this.#youngBytes += value.sizeBytes + key.length + ENTRY_BYTES
    this.#rotate()
  }

  #rotate(): void {
    if (this.#youngBytes < this.#maxBytes / 2) return
    this.#old = this.#young
    this.#young = new Map()
    this.#youngBytes = 0
  }
}

/** About the size of an entry without its value and key. */
const ENTRY_BYTES = 300
const MAX_ADDRESSES = 10_000
const MAX_ADDRESS_LENGTH = 500

function isOverloaded(error: unknown): boolean {
  return error instanceof AppError && error.code === 'overloaded'
}

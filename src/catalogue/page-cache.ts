import { AppError } from '../errors.ts'
import { SharedLoad } from './shared-load.ts'

/** A value and the version of the catalogue that it was made from. */
export interface Cached<T> {
  version: number
  value: T
}

export interface Loader<T> {
  /** The owner of the turn: the network, or else the account. */
  owner: string
  /** Runs the work in a turn of the owner. Throws `overloaded`. */
  admit: (work: () => Promise<void>) => Promise<void>
  load: () => Promise<Cached<T>>
}

/**
 * Values by key, of one version of the catalogue at a time, in at most `maxBytes` with their keys; the least recently used are evicted
 * first. Also remembers which addresses mean the same key, so that a repeated address is not parsed again.
 */
export class PageCache<T extends { sizeBytes: number }> {
  readonly #maxBytes: number
  // Two generations instead of a list in order of use: a hit in the young one is one look-up and moves nothing.
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

  /** The value of an address that was remembered, if it is of this version. */
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
   * The value of `key`, made by `load` unless it is cached in this version. Concurrent callers share one load, which begins with the first of
   * their turns. `load` returns the version that it has read, this one or a newer one; the value is cached under that version only.
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
      // The turns of other callers were refused, so this one waits for its own.
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

  /** Drops every value, even those that are being loaded, because versions restart from an earlier one. */
  clear(): void {
    this.#generation++
    this.#loading.clear()
    this.#empty(-1)
  }

  /** Remembers that `address` means `key` in this version: in another one the catalogue may have other languages. */
  remember(address: string, key: string, version: number): void {
    if (version !== this.#version) return
    // A key may have some kilobytes, so the number of addresses is bounded.
    if (this.#keys.size >= MAX_ADDRESSES) this.#keys.clear()
    if (address.length <= MAX_ADDRESS_LENGTH) this.#keys.set(address, key)
  }

  /** Counts bytes that were added to a value since it was stored. */
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

/** About what an entry takes besides its value and its key. */
const ENTRY_BYTES = 300
const MAX_ADDRESSES = 10_000
const MAX_ADDRESS_LENGTH = 500

function isOverloaded(error: unknown): boolean {
  return error instanceof AppError && error.code === 'overloaded'
}

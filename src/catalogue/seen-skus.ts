import { hash } from 'node:crypto'

const EMPTY = 0
const FIRST_SIZE = 1 << 12
const MAX_LOAD = 0.7

/**
 * The line each sku was first seen on, in about 23 bytes a sku: of a million skus a Map of strings would take over 100 MB.
 * A sku is known by 96 bits of its SHA-256, of which two among a million are equal with a probability of 10^-17.
 */
export class SeenSkus {
  /** Four words a slot: three of the digest, and the line, 0 where the slot is empty. */
  #slots = new Uint32Array(FIRST_SIZE * 4)
  #count = 0

  /** The line on which `sku` came before; if there is none it is `line` from now on. */
  add(sku: string, line: number): number | undefined {
    const digest = hash('sha256', sku, 'buffer')
    const key = [digest.readUInt32LE(0), digest.readUInt32LE(4), digest.readUInt32LE(8)] as const
    const at = this.#find(key)
    const earlier = this.#slots[at + 3]
    if (earlier !== EMPTY) return earlier
    this.#slots.set([...key, line], at)
    this.#count++
    if (this.#count > (this.#slots.length / 4) * MAX_LOAD) this.#grow()
    return undefined
  }

  #find([a, b, c]: readonly [number, number, number]): number {
    const slots = this.#slots
    const mask = slots.length / 4 - 1
    for (let slot = a & mask; ; slot = (slot + 1) & mask) {
      const at = slot * 4
      if (slots[at + 3] === EMPTY || (slots[at] === a && slots[at + 1] === b && slots[at + 2] === c)) return at
    }
  }

  #grow(): void {
    const old = this.#slots
    this.#slots = new Uint32Array(old.length * 2)
    for (let at = 0; at < old.length; at += 4) {
      if (old[at + 3] === EMPTY) continue
      this.#slots.set(old.subarray(at, at + 4), this.#find([old[at] ?? 0, old[at + 1] ?? 0, old[at + 2] ?? 0]))
    }
  }
}

import { hash } from 'node:crypto'

const EMPTY = 0
const FIRST_SIZE = 1 << 12
const MAX_LOAD = 0.8
/** Words in a slot: two of the digest, and the line, which is 0 in an empty slot. */
const WIDTH = 3

/**
 * The first line of each sku, in 15 to 30 bytes a sku; a Map of strings would take over 100 MB for a million. 64 bits
 * of its SHA-256 identify a sku. Among a million they collide with a probability of 3 in 100 million.
 */
export class SeenSkus {
  #slots = new Uint32Array(FIRST_SIZE * WIDTH)
  #count = 0

  /** Returns the earlier line of `sku`. For a new sku, stores `line` and returns undefined. */
  add(sku: string, line: number): number | undefined {
    const digest = hash('sha256', sku, 'buffer')
    const [a, b] = [digest.readUInt32LE(0), digest.readUInt32LE(4)]
    const at = this.#find(a, b)
    const earlier = this.#slots[at + 2]
    if (earlier !== EMPTY) return earlier
    this.#slots.set([a, b, line], at)
    this.#count++
    if (this.#count > (this.#slots.length / WIDTH) * MAX_LOAD) this.#grow()
    return undefined
  }

  #find(a: number, b: number): number {
    const slots = this.#slots
    const mask = slots.length / WIDTH - 1
    for (let slot = a & mask; ; slot = (slot + 1) & mask) {
      const at = slot * WIDTH
      if (slots[at + 2] === EMPTY || (slots[at] === a && slots[at + 1] === b)) return at
    }
  }

  #grow(): void {
    const old = this.#slots
    this.#slots = new Uint32Array(old.length * 2)
    for (let at = 0; at < old.length; at += WIDTH) {
      if (old[at + 2] === EMPTY) continue
      this.#slots.set(old.subarray(at, at + WIDTH), this.#find(old[at] ?? 0, old[at + 1] ?? 0))
    }
  }
}

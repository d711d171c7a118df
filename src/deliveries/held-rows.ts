import type { Pool } from '../db/pool.ts'
import type { DeliveryKind, Taken } from './delivery-kind.ts'
import { type HeldRow, releaseDeliveries, renewLeases } from './delivery-rows.ts'

/** Younger deliveries have enough of their lease left for the next heartbeat. */
const RENEWED_AFTER_MS = 2_000

export type Held<Row> = Taken<Row> & HeldRow & { leasedAt: number }

export interface DeliveryPools {
  pool: Pool
  /** Serves only the heartbeats, which wait behind nothing else; `pool` by default. */
  leasePool?: Pool
}

/** What a worker has taken. */
export class HeldRows<Row extends object> {
  readonly #pool: Pool
  readonly #leasePool: Pool
  readonly #kind: DeliveryKind
  readonly running = new Set<Held<Row>>()
  /** By receiver, what waits for a place. */
  readonly waiting = new Map<string, Held<Row>[]>()
  /** What waited and goes back to the table. */
  readonly returned = new Set<Held<Row>>()

  constructor({ pool, leasePool = pool }: DeliveryPools, kind: DeliveryKind) {
    this.#pool = pool
    this.#leasePool = leasePool
    this.#kind = kind
  }

  /**
   * Adds rows that were taken to what waits. Returns those that were held already, under a lease that had ended: the
   * attempt counts once.
   */
  keep(rows: readonly Held<Row>[]): Held<Row>[] {
    const keyOf = (row: Held<Row>) => this.#kind.key.map((column) => row[column]).join(' ')
    const held = new Map([...this.running, ...this.#allWaiting(), ...this.returned].map((row) => [keyOf(row), row]))
    const again: Held<Row>[] = []
    for (const row of rows) {
      const before = held.get(keyOf(row))
      // Otherwise an operator has queued it again: the attempt in flight is not of this time.
      const isSame = before !== undefined && row.attempts > before.attempts
      if (before === undefined || (!isSame && this.running.has(before)))
        this.waiting.set(row.receiver, [...(this.waiting.get(row.receiver) ?? []), row])
      else {
        if (isSame) again.push(row)
        Object.assign(before, row, { attempts: Math.min(row.attempts, before.attempts) })
      }
    }
    return again
  }

  #allWaiting(): Held<Row>[] {
    return [...this.waiting.values()].flat()
  }

  /** What waits for this receiver, or these of it, is not begun. */
  return(receiver: string, rows: readonly Held<Row>[] = this.waiting.get(receiver) ?? []): void {
    const left = (this.waiting.get(receiver) ?? []).filter((row) => !rows.includes(row))
    if (left.length > 0) this.waiting.set(receiver, left)
    else this.waiting.delete(receiver)
    for (const row of rows) this.returned.add(row)
  }

  /**
   * Returns to the table what is not begun; it stays here while that fails, or its row is locked. Returns the
   * receivers.
   */
  async release(): Promise<Set<string>> {
    const rows = [...this.returned]
    const locked = await releaseDeliveries(this.#pool, this.#kind, rows, { isAttempt: false })
    const released = rows.filter((row) => !locked.has(row))
    for (const row of released) this.returned.delete(row)
    return new Set(released.map(({ receiver }) => receiver))
  }

  /**
   * Extends the leases. What waits and is no longer queued, or is locked and may change, is not begun. Returns
   * whether there is such.
   */
  async renew(): Promise<boolean> {
    const now = performance.now()
    const waiting = this.#allWaiting()
    const old = [...this.running].filter(({ leasedAt }) => leasedAt < now - RENEWED_AFTER_MS)
    const renewed = await renewLeases(this.#leasePool, this.#kind, [...old, ...waiting])
    for (const row of renewed) row.leasedAt = Math.max(row.leasedAt, now)
    for (const row of waiting) {
      if (!renewed.has(row) && this.waiting.get(row.receiver)?.includes(row)) this.return(row.receiver, [row])
    }
    return this.returned.size > 0
  }
}

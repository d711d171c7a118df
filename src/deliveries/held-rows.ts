import type { Pool } from '../db/pool.ts'
import type { DeliveryKind, Taken } from './delivery-kind.ts'
import { type HeldRow, releaseDeliveries, renewLeases } from './delivery-rows.ts'

/** Younger leases last until the next heartbeat. */
const RENEWED_AFTER_MS = 2_000

export type Held<Row> = Taken<Row> & HeldRow & { leasedAt: number }

export interface DeliveryPools {
  pool: Pool
  /** A pool that only heartbeats use, so they never wait for a connection. The default is `pool`. */
  leasePool?: Pool
}

/** The deliveries that a worker has taken. */
export class HeldRows<Row extends object> {
  readonly #pool: Pool
  readonly #leasePool: Pool
  readonly #kind: DeliveryKind
  readonly running = new Set<Held<Row>>()
  /** Deliveries that wait for a place, by receiver. */
  readonly waiting = new Map<string, Held<Row>[]>()
  /** Deliveries that will not begin and return to the table. */
  readonly returned = new Set<Held<Row>>()

  constructor({ pool, leasePool = pool }: DeliveryPools, kind: DeliveryKind) {
    this.#pool = pool
    this.#leasePool = leasePool
    this.#kind = kind
  }

  /**
   * Adds taken rows to the waiting ones. Returns those that this worker still holds after their lease ended: their
   * attempt counts once.
   */
  keep(rows: readonly Held<Row>[]): Held<Row>[] {
    const keyOf = (row: Held<Row>) => this.#kind.key.map((column) => row[column]).join(' ')
    const held = new Map([...this.running, ...this.#allWaiting(), ...this.returned].map((row) => [keyOf(row), row]))
    const again: Held<Row>[] = []
    for (const row of rows) {
      const before = held.get(keyOf(row))
      // If not, an operator has requeued it, and the attempt in flight belongs to its previous queueing.
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

  /** Marks waiting deliveries of a receiver, by default all, for return to the table. */
  return(receiver: string, rows: readonly Held<Row>[] = this.waiting.get(receiver) ?? []): void {
    const left = (this.waiting.get(receiver) ?? []).filter((row) => !rows.includes(row))
    if (left.length > 0) this.waiting.set(receiver, left)
    else this.waiting.delete(receiver)
    for (const row of rows) this.returned.add(row)
  }

  /**
   * Releases the returned rows. Rows stay here while the statement fails or they are locked. Returns the receivers of
   * released rows.
   */
  async release(): Promise<Set<string>> {
    const rows = [...this.returned]
    const locked = await releaseDeliveries(this.#pool, this.#kind, rows, { isAttempt: false })
    const released = rows.filter((row) => !locked.has(row))
    for (const row of released) this.returned.delete(row)
    return new Set(released.map(({ receiver }) => receiver))
  }

  /**
   * Extends the leases. A waiting delivery is not begun if it is no longer queued, or is locked and may change. Returns
   * whether there are such deliveries.
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

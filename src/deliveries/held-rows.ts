import type { Pool } from '../db/pool.ts'
import type { DeliveryKind, Taken } from './delivery-kind.ts'
import { type HeldRow, releaseDeliveries, renewLeases } from './delivery-rows.ts'

/** A younger lease lasts until the next heartbeat, so it is not extended yet. */
const RENEWED_AFTER_MS = 2_000

export type Held<Row> = Taken<Row> & HeldRow & { leasedAt: number }

export interface DeliveryPools {
  pool: Pool
  /** A pool that only heartbeats use, so that they never wait for a connection. The default is `pool`. */
  leasePool?: Pool
}

/** The deliveries that a worker has taken and not finished. */
export class HeldRows<Row extends object> {
  readonly #pool: Pool
  readonly #leasePool: Pool
  readonly #kind: DeliveryKind
  readonly running = new Set<Held<Row>>()
  /** The deliveries that wait for a place, by receiver. */
  readonly waiting = new Map<string, Held<Row>[]>()
  /** The deliveries that will not begin and are given back to the table. */
  readonly returned = new Set<Held<Row>>()

  constructor({ pool, leasePool = pool }: DeliveryPools, kind: DeliveryKind) {
    this.#pool = pool
    this.#leasePool = leasePool
    this.#kind = kind
  }

  /**
   * Adds taken rows to the waiting ones. A worker may take a row that it still holds, because its lease has ended.
   * These rows are returned, because their attempt was counted twice.
   */
  keep(rows: readonly Held<Row>[]): Held<Row>[] {
    const keyOf = (row: Held<Row>) => this.#kind.key.map((column) => row[column]).join(' ')
    const held = new Map([...this.running, ...this.#allWaiting(), ...this.returned].map((row) => [keyOf(row), row]))
    const again: Held<Row>[] = []
    for (const row of rows) {
      const before = held.get(keyOf(row))
      // If it is not the same, an operator has queued the row again, and the attempt in flight belongs to its previous
      // queueing.
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

  /** Moves waiting deliveries of a receiver, by default all, to those that are given back to the table. */
  return(receiver: string, rows: readonly Held<Row>[] = this.waiting.get(receiver) ?? []): void {
    const left = (this.waiting.get(receiver) ?? []).filter((row) => !rows.includes(row))
    if (left.length > 0) this.waiting.set(receiver, left)
    else this.waiting.delete(receiver)
    for (const row of rows) this.returned.add(row)
  }

  /**
   * Gives the returned rows back to the table. Locked rows stay here, and all rows stay if the statement fails. Returns
   * the receivers of the rows that were given back.
   */
  async release(): Promise<Set<string>> {
    const rows = [...this.returned]
    const locked = await releaseDeliveries(this.#pool, this.#kind, rows, { isAttempt: false })
    const released = rows.filter((row) => !locked.has(row))
    for (const row of released) this.returned.delete(row)
    return new Set(released.map(({ receiver }) => receiver))
  }

  /**
   * Extends the leases. A waiting delivery is given back if it is no longer queued, or if its row is locked and may be
   * changing. Returns whether there are deliveries to give back.
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

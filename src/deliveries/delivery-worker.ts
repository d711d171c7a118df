import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { Loop } from '../loop.ts'
import { withinMs } from '../within-ms.ts'
import { type Attempt, type Deliver, type DeliveryKind, type DeliveryOutcome, NO_RECEIVER, type Taken } from './delivery-kind.ts'
import { type Ended, endPauses, recordOutcomes, releaseDeliveries, takeDeliveries, uncountAttempts } from './delivery-rows.ts'
import { groupCalls } from './group-calls.ts'
import { type DeliveryPools, type Held, HeldRows } from './held-rows.ts'
import { NO_SHARE, type ReceiverShare, Receivers } from './receivers.ts'

export interface WorkOptions {
  /** The most deliveries in flight in this process. */
  places: number
  /** How receivers share the places. Deliveries to `NO_RECEIVER` begin in the order they arrive. */
  share?: ReceiverShare
  /** Aborts attempts in flight when a stop has waited long enough, before another process takes them. */
  breakOff?: () => Promise<void> | void
}

const POLL_MS = 60_000
const RETRY_MS = 2_000
const STOP_PATIENCE_MS = 5_000
const HEARTBEAT_MS = 5_000
/** The pause before storing a locked row's outcome again, and the wait for aborted attempts. */
const LOCKED_MS = 500
/** A delivery that waited longer without a heartbeat is not begun, because its lease may have ended. */
const LEASE_MARGIN_MS = 12_000
/** A full process takes more once this number of places is free, or after `TAKE_SOON_MS`. */
const FREE_PLACES = 32
const TAKE_SOON_MS = 50
const TAKEN_AT_ONCE = 100
/**
 * How many deliveries may wait in memory for a healthy receiver, as a multiple of its share. They keep it busy until
 * the next take.
 */
const WAITING_PER_SHARE = 4
/** Bounds the pause of a failing receiver. */
const LONGEST_RECEIVER_PAUSE_SECONDS = 60
/** Bounds a delivery whose every attempt crashes its process. */
const MAX_ATTEMPTS = 1_000

/**
 * The worker of this process for one kind of delivery. It takes only deliveries that can begin soon. Deliveries to a
 * slow, failing or busy receiver stay in the table, where they delay no others. See
 * docs/decisions/deliveries.md#a-share-for-each-receiver.
 */
export class DeliveryWorker<Row extends object> {
  readonly kind: DeliveryKind
  readonly #pool: Pool
  readonly #logger: Logger
  readonly #options: WorkOptions
  readonly #deliver: Deliver<Row>
  readonly #receivers: Receivers
  readonly #loop: Loop
  /**
   * Extends the leases. A waiting delivery that is no longer queued is not begun, since its receiver may be removed.
   */
  readonly #heartbeat: Loop
  /** Stores an outcome. Returns whether it was stored. */
  readonly #record: (ended: Ended) => Promise<boolean>
  /** Receivers that may have due deliveries. Suspects share a limited number of places. */
  readonly #due = new Set<string>()
  readonly #dueSuspects = new Set<string>()
  readonly #held: HeldRows<Row>
  readonly #ends = new Set<Promise<void>>()
  /** The lengths of ended outages in milliseconds, by receiver; null for an outage of all receivers. */
  readonly #back = new Map<string | null, number>()
  /** Free places that healthy receivers leave to suspects. */
  #kept = 0
  #takingSoon: NodeJS.Timeout | undefined
  #stopped: Promise<void> | undefined
  #isBroken = false
  /** The stop no longer waits for attempts. */
  #isOver = false

  constructor({ logger, ...pools }: DeliveryPools & { logger: Logger }, kind: DeliveryKind, options: WorkOptions, deliver: Deliver<Row>) {
    this.kind = kind
    this.#pool = pools.pool
    this.#logger = logger
    this.#options = options
    this.#deliver = deliver
    this.#held = new HeldRows(pools, kind)
    const longestSeconds = Math.min(kind.longestPauseSeconds, LONGEST_RECEIVER_PAUSE_SECONDS)
    const pauses = { firstMs: Math.min(kind.firstPauseSeconds, longestSeconds) * 1_000, longestMs: longestSeconds * 1_000 }
    this.#receivers = new Receivers(options.share ?? NO_SHARE, pauses)
    this.#loop = new Loop({
      ...{ everyMs: POLL_MS, retryMs: RETRY_MS },
      work: async () => ((await this.#round()) ? 0 : POLL_MS),
      onFailure: (error) => this.#report(error),
    })
    this.#heartbeat = new Loop({
      ...{ firstMs: HEARTBEAT_MS, everyMs: HEARTBEAT_MS, retryMs: RETRY_MS },
      work: async () => {
        if (await this.#held.renew()) this.#loop.wake()
      },
      onFailure: (error) => this.#report(error),
    })
    this.#record = groupCalls(async (group: readonly Ended[]) => {
      const left = await recordOutcomes(this.#pool, kind, group)
      return group.map((ended) => !left.has(ended))
    }, options.places)
  }

  start(): void {
    void this.#loop.start()
    void this.#heartbeat.start()
  }

  /** Takes deliveries to these receivers now. */
  wake(receivers: Iterable<string>): void {
    for (const receiver of receivers) this.#due.add(receiver)
    if (this.#due.size > 0) this.#loop.wake()
  }

  /**
   * Ends an outage of `outageMs` that affected all deliveries of this kind. Deliveries that failed during it are due
   * now.
   */
  endPauses(outageMs: number): void {
    this.#receivers.forgive()
    this.#isBack(null, outageMs)
    this.#loop.wake()
  }

  /** Takes no more and waits for deliveries in flight, five seconds at most. Idempotent. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    await this.#loop.stop()
    clearTimeout(this.#takingSoon)
    for (const receiver of [...this.#held.waiting.keys()]) this.#held.return(receiver)
    await this.#release().catch((error) => this.#report(error))
    await withinMs(STOP_PATIENCE_MS, Promise.all(this.#ends), null)
    // Skipped without attempts, because other kinds may share these connections.
    if (this.#ends.size > 0) await this.#options.breakOff?.()
    await withinMs(LOCKED_MS, Promise.all(this.#ends), null)
    this.#isOver = true
    // A heartbeat in flight would lock the rows, so they would keep their leases.
    await this.#heartbeat.stop()
    // Another process can take them now instead of when their leases end.
    await releaseDeliveries(this.#pool, this.kind, [...this.#held.running], { isAttempt: true }).catch((error) => this.#report(error))
  }

  async #release(): Promise<void> {
    for (const receiver of await this.#held.release()) this.#due.add(receiver)
  }

  /** Returns whether there may be more to take at once. */
  async #round(): Promise<boolean> {
    for (const receiver of [...this.#held.waiting.keys()]) if (this.#isSuspect(receiver)) this.#held.return(receiver)
    await this.#release()
    const wanted = this.#wanted()
    if (wanted.size > 0) await this.#take(wanted)
    // This comes last, so neither many pauses nor a failure here delays due deliveries.
    const hasEndedPauses = await this.#endPauses()
    // Another process may have taken the rows that places were kept for.
    if (!this.#loop.isStopped) this.#beginAll()
    if (this.#isBroken) this.#logger.info({ queue: this.kind.name }, 'deliveries are taken again')
    this.#isBroken = false
    return hasEndedPauses || wanted.size > 0
  }

  async #take(wanted: ReadonlyMap<string, number>): Promise<void> {
    // A receiver announced during the statement may be too late for it, so its announcement must stay.
    for (const receiver of wanted.keys()) this.#forget(receiver)
    const lease = randomUUID()
    const leasedAt = performance.now()
    let rows: Taken<Row>[]
    try {
      rows = await takeDeliveries<Row>(this.#pool, this.kind, wanted, lease)
    } catch (error) {
      for (const receiver of wanted.keys()) this.#due.add(receiver)
      throw error
    }
    const taken = Map.groupBy(rows, ({ receiver }) => receiver)
    for (const [receiver, deliveries] of wanted) {
      // Re-adding puts this receiver behind the others.
      if ((taken.get(receiver)?.length ?? 0) >= Math.ceil(deliveries / 2)) this.#due.add(receiver)
    }
    const again = this.#held.keep(rows.map((row) => ({ ...row, lease, leasedAt })))
    if (this.#loop.isStopped) {
      for (const receiver of taken.keys()) this.#held.return(receiver)
      return this.#release()
    }
    for (const receiver of taken.keys()) if (this.#isSuspect(receiver)) this.#begin(receiver)
    this.#beginAll()
    await uncountAttempts(this.#pool, this.kind, again)
  }

  #beginAll(): void {
    for (const receiver of [...this.#held.waiting.keys()]) {
      if (this.#freePlaces === 0) return
      this.#begin(receiver)
    }
  }

  /** Begins waiting deliveries to this receiver while there are places. */
  #begin(receiver: string): void {
    const waiting = this.#held.waiting.get(receiver) ?? []
    const isSuspect = this.#isSuspect(receiver)
    while (waiting.length > 0 && this.#freePlaces > (isSuspect ? 0 : this.#kept) && this.#roomOf(receiver) >= 1) {
      const row = waiting.shift() as Held<Row>
      if (isSuspect && this.#kept > 0) this.#kept--
      // Re-inserting puts this receiver behind the others.
      this.#held.waiting.delete(receiver)
      this.#held.waiting.set(receiver, waiting)
      // This process was paused or cut off, so another process makes the attempt.
      if (performance.now() - row.leasedAt > LEASE_MARGIN_MS) {
        this.#held.returned.add(row)
        this.#loop.wake()
        continue
      }
      const end = this.#make(row).finally(() => this.#ends.delete(end))
      this.#ends.add(end)
    }
    if (waiting.length === 0) this.#held.waiting.delete(receiver)
  }

  #forget(receiver: string): void {
    this.#due.delete(receiver)
    this.#dueSuspects.delete(receiver)
  }

  get #freePlaces(): number {
    return this.#options.places - this.#held.running.size
  }

  /** How many deliveries to each receiver can begin now or soon. */
  #wanted(): Map<string, number> {
    const wanted = new Map<string, number>()
    const waiting = this.#held.waiting.values().reduce((sum, { length }) => sum + length, 0)
    // At most as many deliveries wait as there are places.
    let places = Math.min(this.#freePlaces + this.#options.places - waiting, TAKEN_AT_ONCE)
    const want = (receiver: string, room: number): number => {
      const deliveries = Math.min(room, places)
      if (deliveries < 1) return 0
      wanted.set(receiver, deliveries)
      places -= deliveries
      return deliveries
    }
    for (const receiver of this.#due) {
      if (!this.#isSuspect(receiver)) continue
      this.#due.delete(receiver)
      // A set keeps the order in which receivers were first added, however often polls announce them.
      this.#dueSuspects.add(receiver)
    }
    // Suspects come first because their places are limited. Healthy receivers with a backlog would take every place.
    let { suspectRoom } = this.#receivers
    let free = this.#freePlaces
    this.#kept = 0
    for (const receiver of this.#dueSuspects) {
      if (suspectRoom === 0) break
      const room = Math.min(this.#roomOf(receiver), suspectRoom)
      // The next poll finds it again.
      if (this.#receivers.isPaused(receiver)) this.#dueSuspects.delete(receiver)
      else if (!this.#isSuspect(receiver)) this.#move(receiver, this.#due)
      else if (room >= 1 && free === 0) {
        // The next free place is for this receiver.
        this.#kept++
        break
      } else {
        const deliveries = want(receiver, Math.min(room, free))
        suspectRoom -= deliveries
        free -= deliveries
        this.#kept += deliveries
      }
    }
    for (const receiver of this.#due) {
      if (places === 0) break
      want(receiver, this.#roomAhead(receiver))
    }
    return wanted
  }

  /**
   * How many more deliveries to take for a healthy receiver. It takes many at once, after half of the waiting ones have
   * begun.
   */
  #roomAhead(receiver: string): number {
    if (receiver === NO_RECEIVER) return this.#freePlaces - this.#kept
    const ahead = (this.#options.share?.perReceiver ?? 0) * WAITING_PER_SHARE
    const waiting = this.#held.waiting.get(receiver)?.length ?? 0
    return waiting > ahead / 2 ? 0 : this.#roomOf(receiver) + ahead - waiting
  }

  #roomOf(receiver: string): number {
    return receiver === NO_RECEIVER ? Number.POSITIVE_INFINITY : this.#receivers.room(receiver)
  }

  #isSuspect(receiver: string): boolean {
    return receiver !== NO_RECEIVER && this.#receivers.isSuspect(receiver)
  }

  #move(receiver: string, list: Set<string>): void {
    this.#forget(receiver)
    list.add(receiver)
  }

  async #make(row: Held<Row>): Promise<void> {
    const { receiver } = row
    const isShared = receiver !== NO_RECEIVER
    const { slowMs } = this.#options.share ?? NO_SHARE
    const began = performance.now()
    this.#held.running.add(row)
    if (isShared) this.#receivers.began(receiver)
    const slow = !isShared || slowMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(() => this.#slow(receiver), slowMs)
    let health: 'well' | 'failing' | null = null
    await this.#attempt(row, (reported) => {
      health = reported
    })
    clearTimeout(slow)
    this.#held.running.delete(row)
    const outageMs = isShared ? this.#receivers.ended(receiver, health, performance.now() - began) : null
    if (outageMs !== null) this.#isBack(receiver, outageMs)
    if (this.#loop.isStopped) return
    this.#beginAll()
    this.#takeMore(receiver)
  }

  #slow(receiver: string): void {
    this.#receivers.slow(receiver)
    if (this.#held.waiting.has(receiver)) this.#loop.wake()
  }

  async #attempt(row: Held<Row>, report: Attempt['report']): Promise<void> {
    let isRecorded = false
    const record = async (outcome: DeliveryOutcome): Promise<void> => {
      isRecorded = true
      while (!(await this.#record({ row, outcome }))) {
        if (this.#isOver) return
        await delay(LOCKED_MS)
      }
    }
    try {
      if (row.attempts > MAX_ATTEMPTS) return await record({ to: 'failed', reason: 'the process ended during each attempt' })
      await this.#deliver(row, { report, record })
    } catch (error) {
      if (isRecorded) return this.#report(error)
      this.#logger.error({ err: error, queue: this.kind.name }, 'a delivery threw an error and is retried')
      await record({ to: 'retry', reason: 'an internal error, which the log has' }).catch((failure) => this.#report(failure))
    }
  }

  /** Takes more now when that is worth a statement, otherwise after `TAKE_SOON_MS`. */
  #takeMore(receiver: string): void {
    if (this.#isWorthTaking(receiver)) this.#loop.wake()
    if (this.#due.size === 0 && this.#dueSuspects.size === 0) return
    this.#takingSoon ??= setTimeout(() => {
      this.#takingSoon = undefined
      this.#loop.wake()
    }, TAKE_SOON_MS)
  }

  #isWorthTaking(receiver: string): boolean {
    const isSuspect = this.#isSuspect(receiver)
    if (this.#back.size > 0 || (isSuspect && this.#held.waiting.has(receiver))) return true
    if (this.#isDue(receiver) && (isSuspect || this.#roomAhead(receiver) >= 1)) return true
    const areSuspectsFree = this.#dueSuspects.size > 0 && this.#receivers.suspectRoom > 0
    return (this.#due.size > 0 || areSuspectsFree) && this.#freePlaces >= Math.min(FREE_PLACES, this.#options.places / 2)
  }

  #isDue(receiver: string): boolean {
    if (!this.#dueSuspects.has(receiver)) return this.#due.has(receiver)
    if (!this.#isSuspect(receiver)) this.#move(receiver, this.#due)
    return true
  }

  #isBack(receiver: string | null, outageMs: number): void {
    this.#back.set(receiver, Math.max(outageMs, this.#back.get(receiver) ?? 0))
  }

  /** Returns whether any pause has ended. */
  async #endPauses(): Promise<boolean> {
    if (this.#back.size === 0) return false
    const back = new Map(this.#back)
    const { receivers, hasMore } = await endPauses(this.#pool, this.kind, back)
    for (const receiver of receivers) this.#due.add(receiver)
    if (!hasMore) for (const receiver of back.keys()) this.#back.delete(receiver)
    return receivers.size > 0
  }

  /** Checks at once which waiting deliveries are still queued. */
  beat(): void {
    this.#heartbeat.wake()
  }

  /** Logs only the first error of an outage. */
  #report(error: unknown): void {
    if (this.#isBroken || this.#loop.isStopped) return
    this.#logger.error({ err: loggableError(error), queue: this.kind.name }, 'deliveries cannot be taken or stored')
    this.#isBroken = true
  }
}

/** How receivers, such as endpoints, caches or recipient domains, share a worker's places. */
export interface ReceiverShare {
  /** The most deliveries to one receiver at once. */
  perReceiver: number
  /** The most deliveries in flight to all new, slow or failing receivers. */
  suspects: number
  /** A receiver that takes longer for a delivery is slow. */
  slowMs: number
}

export const NO_SHARE: ReceiverShare = {
  perReceiver: Number.POSITIVE_INFINITY,
  suspects: Number.POSITIVE_INFINITY,
  slowMs: Number.POSITIVE_INFINITY,
}

/** The first and the longest pause of a failing receiver. */
export interface ReceiverPauses {
  firstMs: number
  longestMs: number
}

interface Receiver {
  running: number
  /** Whether it has ever accepted a delivery. */
  isProven: boolean
  isSlow: boolean
  isFailing: boolean
  /** Whether the last delivery ended without asking the receiver, because there was nothing to send. */
  isUnasked: boolean
  failures: number
  /**
   * When the first of these failures ended, by `performance.now()`. `-Infinity` if this process has never seen the
   * receiver healthy.
   */
  failingSince: number
  /** The number of pauses since it began to fail. */
  pauses: number
  /** A time on the clock of `performance.now()`. */
  pausedUntil: number
}

// Fewer failures may concern single deliveries. One is enough if it took long.
const FAILURES_OF_AN_OUTAGE = 3
/** Recipient domains have up to 65,536 names: mail-share.ts. */
const REMEMBERED = 100_000
const NEW: Readonly<Receiver> = {
  running: 0,
  isProven: false,
  isSlow: false,
  isFailing: false,
  isUnasked: false,
  failures: 0,
  failingSince: Number.NEGATIVE_INFINITY,
  pauses: 0,
  pausedUntil: 0,
}

/**
 * The health of receivers as this process has seen it. It is only in memory. A new receiver gets one delivery at a time
 * until it has accepted one. A slow receiver gets a quarter of its share. A failing receiver gets one delivery after
 * each pause.
 */
export class Receivers {
  readonly #share: ReceiverShare
  readonly #pauses: ReceiverPauses
  readonly #receivers = new Map<string, Receiver>()
  /** Receivers with deliveries in flight, so at most one for each place. */
  readonly #busy = new Set<Receiver>()

  constructor(share: ReceiverShare, pauses: ReceiverPauses) {
    this.#share = share
    this.#pauses = pauses
  }

  /** Reads without storing, because thousands of receivers may have waiting deliveries. */
  #look(name: string): Readonly<Receiver> {
    return this.#receivers.get(name) ?? NEW
  }

  #remember(name: string): Receiver {
    const receiver = this.#receivers.get(name) ?? { ...NEW }
    // Re-inserting keeps the map in order of use.
    this.#receivers.delete(name)
    this.#receivers.set(name, receiver)
    const [oldest] = this.#receivers
    if (this.#receivers.size > REMEMBERED && oldest?.[1].running === 0) this.#receivers.delete(oldest[0])
    return receiver
  }

  /** How many more deliveries to this receiver may begin now. */
  room(name: string): number {
    const receiver = this.#look(name)
    if (receiver.pausedUntil > performance.now()) return 0
    const { perReceiver } = this.#share
    if (!isSuspect(receiver)) return perReceiver - receiver.running
    const room = this.#limitOf(receiver) - receiver.running
    return room <= 0 ? 0 : Math.min(room, this.suspectRoom)
  }

  #limitOf({ isProven, isFailing, isUnasked }: Readonly<Receiver>): number {
    const { perReceiver } = this.#share
    if (isUnasked) return perReceiver
    return !isProven || isFailing ? 1 : Math.ceil(perReceiver / 4)
  }

  /** How many more deliveries to suspects may begin now. */
  get suspectRoom(): number {
    const running = this.#busy.values().reduce((sum, each) => sum + (isSuspect(each) ? each.running : 0), 0)
    return Math.max(0, this.#share.suspects - running)
  }

  /** Whether the receiver is new, slow or failing. */
  isSuspect(name: string): boolean {
    return isSuspect(this.#look(name))
  }

  /** Whether the receiver failed and its pause has not ended. */
  isPaused(name: string): boolean {
    return this.#look(name).pausedUntil > performance.now()
  }

  began(name: string): void {
    const receiver = this.#remember(name)
    receiver.running++
    this.#busy.add(receiver)
  }

  /** Marks a receiver whose delivery takes longer than `slowMs`. */
  slow(name: string): void {
    this.#remember(name).isSlow = true
  }

  /**
   * Ends a delivery. `health` is null when the receiver was not asked. Returns the length of an outage that has ended
   * with this delivery in milliseconds, or null.
   */
  ended(name: string, health: 'well' | 'failing' | null, tookMs: number): number | null {
    const receiver = this.#remember(name)
    receiver.running--
    if (receiver.running === 0) this.#busy.delete(receiver)
    receiver.isUnasked = health === null
    if (health === null) return null
    receiver.isSlow = tookMs >= this.#share.slowMs
    if (health === 'failing') {
      this.#fail(receiver)
      return null
    }
    const isBack = receiver.isFailing && receiver.failures >= FAILURES_OF_AN_OUTAGE
    const outageMs = isBack ? performance.now() - receiver.failingSince : null
    Object.assign(receiver, { isProven: true, isFailing: false, failures: 0, pauses: 0, pausedUntil: 0 })
    return outageMs
  }

  #fail(receiver: Receiver): void {
    if (receiver.failures === 0 && receiver.isProven) receiver.failingSince = performance.now()
    receiver.failures++
    receiver.isFailing ||= receiver.isSlow || receiver.failures >= FAILURES_OF_AN_OUTAGE
    // Simultaneous deliveries fail together and cause one pause.
    if (!receiver.isFailing || receiver.pausedUntil > performance.now()) return
    const { firstMs, longestMs } = this.#pauses
    const pause = Math.min(firstMs * 2 ** receiver.pauses, longestMs)
    receiver.pauses = Math.min(receiver.pauses + 1, 20)
    // Up to a quarter is added at random, so receivers that failed together are not all asked together.
    receiver.pausedUntil = performance.now() + pause * (1 + Math.random() / 4)
  }

  /** Clears all failures after an outage that affected every receiver. */
  forgive(): void {
    for (const receiver of this.#receivers.values())
      Object.assign(receiver, { isSlow: false, isFailing: false, failures: 0, pauses: 0, pausedUntil: 0 })
  }
}

function isSuspect({ isProven, isSlow, isFailing }: Readonly<Receiver>): boolean {
  return !isProven || isSlow || isFailing
}

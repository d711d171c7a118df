/** How the places of a worker are shared among receivers, such as endpoints, caches or the domains of recipients. */
export interface ReceiverShare {
  /** Deliveries to one receiver that are in flight at once. */
  perReceiver: number
  /** Deliveries in flight to all receivers that are new, slow or failing. */
  suspects: number
  /** A receiver that takes longer for a delivery is slow. */
  slowMs: number
}

export const NO_SHARE: ReceiverShare = {
  perReceiver: Number.POSITIVE_INFINITY,
  suspects: Number.POSITIVE_INFINITY,
  slowMs: Number.POSITIVE_INFINITY,
}

/** The pauses of a failing receiver: the first, and the longest. */
export interface ReceiverPauses {
  firstMs: number
  longestMs: number
}

interface Receiver {
  running: number
  /** It has accepted a delivery. */
  isProven: boolean
  isSlow: boolean
  isFailing: boolean
  /** Its newest delivery ended without asking it, because nothing was to be sent. */
  isUnasked: boolean
  failures: number
  /** When the first of them ended, by the clock of `performance.now()`; when this process has never seen it well, before all of them. */
  failingSince: number
  /** Pauses since it began to fail. */
  pauses: number
  /** Time on the clock of `performance.now()`. */
  pausedUntil: number
}

// Fewer may be about single deliveries that the receiver cannot take, unless each of them takes long.
const FAILURES_OF_AN_OUTAGE = 3
/** The domains of recipients have 65,536 names: mail-share.ts. */
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
 * What this process knows about the receivers of a kind of delivery. A new receiver gets one delivery at a time until
 * it has accepted one. A slow receiver gets a quarter of its share. One that fails is asked again after a pause, by one delivery. In memory only: each process learns it again.
 */
export class Receivers {
  readonly #share: ReceiverShare
  readonly #pauses: ReceiverPauses
  readonly #receivers = new Map<string, Receiver>()
  /** Receivers with deliveries in flight: no more than there are places. */
  readonly #busy = new Set<Receiver>()

  constructor(share: ReceiverShare, pauses: ReceiverPauses) {
    this.#share = share
    this.#pauses = pauses
  }

  /** A look remembers nothing: thousands of receivers may have deliveries that wait. */
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

  /** New, slow or failing. */
  isSuspect(name: string): boolean {
    return isSuspect(this.#look(name))
  }

  /** It failed, and is asked again after a pause. */
  isPaused(name: string): boolean {
    return this.#look(name).pausedUntil > performance.now()
  }

  began(name: string): void {
    const receiver = this.#remember(name)
    receiver.running++
    this.#busy.add(receiver)
  }

  /** A delivery has taken longer than `slowMs`. */
  slow(name: string): void {
    this.#remember(name).isSlow = true
  }

  /** A delivery ended. `health` is null when the receiver was not asked. Returns how long an outage lasted that has ended with it, in milliseconds, or null. */
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
    // Deliveries that were made together fail together: one pause.
    if (!receiver.isFailing || receiver.pausedUntil > performance.now()) return
    const { firstMs, longestMs } = this.#pauses
    const pause = Math.min(firstMs * 2 ** receiver.pauses, longestMs)
    receiver.pauses = Math.min(receiver.pauses + 1, 20)
    // Up to a quarter is added at random, so that receivers that failed together are not all asked together.
    receiver.pausedUntil = performance.now() + pause * (1 + Math.random() / 4)
  }

  /** What all receivers share was unavailable and is back: their failures say nothing about them. */
  forgive(): void {
    for (const receiver of this.#receivers.values())
      Object.assign(receiver, { isSlow: false, isFailing: false, failures: 0, pauses: 0, pausedUntil: 0 })
  }
}

function isSuspect({ isProven, isSlow, isFailing }: Readonly<Receiver>): boolean {
  return !isProven || isSlow || isFailing
}

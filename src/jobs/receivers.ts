/** How the places of a worker are shared among receivers, such as endpoints, caches or the domains of recipients. */
export interface ReceiverShare {
  /** Jobs of one receiver that run at once. */
  perReceiver: number
  /** Jobs that run at once for all receivers that are new, slow or failing. */
  suspects: number
  /** A receiver that takes longer for a job is slow. */
  slowMs: number
}

/** The pauses of a failing receiver: the first, and the longest. */
export interface ReceiverPauses {
  firstMs: number
  longestMs: number
}

interface Receiver {
  running: number
  /** It has done a job. */
  isProven: boolean
  isSlow: boolean
  isFailing: boolean
  /** Its newest job ended without asking it, because nothing was to be sent. */
  isUnasked: boolean
  /** Number of consecutive failures. */
  failures: number
  /** When the first of them ended, by the clock of `performance.now()`; when this process has never seen it well, before all of them. */
  failingSince: number
  /** Pauses since it began to fail. */
  pauses: number
  /** Time on the clock of `performance.now()`. */
  pausedUntil: number
}

// Fewer may be about single jobs that the receiver cannot take, unless each of them takes long.
const FAILURES_OF_AN_OUTAGE = 3
/** The domains of recipients have 65,536 names: mail-share.ts. */
const REMEMBERED = 100_000
/** Times its share of fetched jobs may wait for a healthy receiver: enough to keep it busy until the next fetch. */
const WAITING_PER_SHARE = 4

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
 * What this process knows about the receivers of a queue. A new receiver gets one job at a time until it has done one, a slow one a quarter of
 * its share. One that fails is asked again after a pause, by one job. In memory only: each process learns it again.
 */
export class Receivers {
  readonly #share: ReceiverShare
  readonly #pauses: ReceiverPauses
  readonly #receivers = new Map<string, Receiver>()
  /** Receivers that run jobs: no more than there are places. */
  readonly #busy = new Set<Receiver>()

  constructor(share: ReceiverShare, pauses: ReceiverPauses) {
    this.#share = share
    this.#pauses = pauses
  }

  /** A look remembers nothing: thousands of receivers may have jobs that wait. */
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

  /** How many more jobs of this receiver may begin now. */
  room(name: string): number {
    return this.#roomOf(this.#look(name))
  }

  #roomOf(receiver: Readonly<Receiver>): number {
    if (receiver.pausedUntil > performance.now()) return 0
    const { perReceiver } = this.#share
    if (!isSuspect(receiver)) return perReceiver - receiver.running
    const room = this.#limitOf(receiver) - receiver.running
    return room <= 0 ? 0 : Math.min(room, this.suspectRoom)
  }

  /** How many deferred jobs of this receiver may be fetched when `held` wait for it, and `suspectRoom` jobs of suspects may begin. */
  releasable(name: string, held: number, suspectRoom: number): number {
    const receiver = this.#look(name)
    if (isSuspect(receiver)) return suspectRoom === 0 ? 0 : Math.min(this.#roomOf(receiver), suspectRoom)
    const maxWaiting = this.maxWaiting(name)
    // A healthy receiver gets many at once, when half of those that wait for it have begun.
    return held <= maxWaiting / 2 ? maxWaiting - held : 0
  }

  #limitOf({ isProven, isFailing, isUnasked }: Readonly<Receiver>): number {
    const { perReceiver } = this.#share
    if (isUnasked) return perReceiver
    return !isProven || isFailing ? 1 : Math.ceil(perReceiver / 4)
  }

  /** How many more jobs of suspects may begin now. */
  get suspectRoom(): number {
    const running = this.#busy.values().reduce((sum, each) => sum + (isSuspect(each) ? each.running : 0), 0)
    return Math.max(0, this.#share.suspects - running)
  }

  /** New, slow or failing. */
  isSuspect(name: string): boolean {
    return isSuspect(this.#look(name))
  }

  /** How many fetched jobs may wait for this receiver in this process; the others wait in the queue. */
  maxWaiting(name: string): number {
    return this.isSuspect(name) ? 0 : this.#share.perReceiver * WAITING_PER_SHARE
  }

  began(name: string): void {
    const receiver = this.#remember(name)
    receiver.running++
    this.#busy.add(receiver)
  }

  /** A job has run for longer than `slowMs`. */
  slow(name: string): void {
    this.#remember(name).isSlow = true
  }

  /** A job ended. `health` is null when the receiver was not asked. Returns how long an outage lasted that has ended with it, in milliseconds, or null. */
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
    // Jobs that ran together fail together: one pause.
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

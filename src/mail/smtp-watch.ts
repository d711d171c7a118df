import type { Logger } from 'pino'
import { Loop } from '../loop.ts'
import { describeError, type Mailer, MailRefused } from './mailer.ts'

const AWAY_AFTER_MS = 60_000
/** How often the server is probed while no mail is sent, and while it fails. */
const PAUSES = { idleMs: 30_000, failingMs: 10_000 }

export interface SmtpWatchOptions {
  mailer: Mailer
  /** Throws if the server would not accept mails. */
  probe: () => Promise<unknown>
  logger: Logger
  now: () => Date
  /**
   * Called when a server that failed a probe is available again. `awayMs` is the length of the outage. It is `Infinity`
   * if this process has never seen the server available before.
   */
  onRecovered?: (awayMs: number) => void
  pauses?: typeof PAUSES
}

/**
 * Watches whether the mail server is available, even if there is nothing to send. An outage is logged once, after a
 * minute.
 */
export class SmtpWatch {
  readonly #options: SmtpWatchOptions
  readonly #pauses: typeof PAUSES
  readonly #loop: Loop
  /** Whether a mail failed. The server is then probed even if another mail was sent a moment ago. */
  #isSuspected = false
  #wasUp = false
  /** When the last probe began, by performance.now() and by the clock. */
  #probed = { at: Number.NEGATIVE_INFINITY, since: 0 }
  #sentAt = Number.NEGATIVE_INFINITY
  #failing: { since: number; reason: string; isReported: boolean } | null = null

  constructor(options: SmtpWatchOptions) {
    this.#options = options
    this.#pauses = options.pauses ?? PAUSES
    const { idleMs, failingMs } = this.#pauses
    this.#loop = new Loop({
      ...{ firstMs: idleMs, everyMs: idleMs, retryMs: failingMs },
      work: () => this.#probe(),
      onFailure: (error) => {
        // A mail that was sent during the probe is newer evidence.
        if (this.#sentAt < this.#probed.at) this.#fail(describeError(error))
      },
    })
  }

  get isUp(): boolean {
    return this.#failing === null
  }

  /** The reason why the server has been unavailable for a minute or longer. Null otherwise. */
  get awayReason(): string | null {
    return this.#failing !== null && this.#failingMs() >= AWAY_AFTER_MS ? this.#failing.reason : null
  }

  /** A mailer that reports its successes and failures to this watch. */
  get mailer(): Mailer {
    const { mailer } = this.#options
    return {
      connections: mailer.connections,
      send: async (mail) => {
        try {
          await mailer.send(mail)
          this.#sentAt = performance.now()
          this.#recover()
        } catch (error) {
          // A server that refuses a single mail is available. Any other failure causes a probe.
          if (error instanceof MailRefused) this.#recover()
          else this.#suspect()
          throw error
        }
      },
      close: () => mailer.close(),
    }
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  /** Stops the watch. It does not wait for a probe in flight, which ends by its own timeouts. */
  async stop(): Promise<void> {
    void this.#loop.stop()
  }

  #suspect(): void {
    if (this.#isSuspected || performance.now() - this.#probed.at < this.#pauses.failingMs) return
    this.#isSuspected = true
    this.#loop.wake()
  }

  async #probe(): Promise<void> {
    const isIdle = performance.now() - this.#sentAt >= this.#pauses.idleMs
    const isDue = this.#isSuspected || this.#failing !== null || isIdle
    this.#isSuspected = false
    if (!isDue) return
    this.#probed = { at: performance.now(), since: this.#options.now().getTime() }
    await this.#options.probe()
    this.#recover()
  }

  #fail(reason: string): void {
    this.#failing = { since: this.#probed.since, isReported: false, ...this.#failing, reason }
    if (this.#failing.isReported || this.#failingMs() < AWAY_AFTER_MS) return
    this.#failing.isReported = true
    this.#options.logger.warn({ reason }, 'the mail server has been unavailable for a minute: mails wait')
  }

  #recover(): void {
    const wasUp = this.#wasUp
    this.#wasUp = true
    if (this.#loop.isStopped || this.#failing === null) return
    const { isReported } = this.#failing
    const awayMs = this.#failingMs()
    const awaySeconds = Math.round(awayMs / 1_000)
    this.#failing = null
    this.#options.onRecovered?.(wasUp ? awayMs : Number.POSITIVE_INFINITY)
    if (isReported) this.#options.logger.info({ awaySeconds }, 'the mail server is back')
  }

  #failingMs(): number {
    return this.#failing === null ? 0 : this.#options.now().getTime() - this.#failing.since
  }
}

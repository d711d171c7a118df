import type { Logger } from 'pino'
import { describeError, type Mailer, MailRefused } from './mailer.ts'

const AWAY_AFTER_MS = 60_000
/** How often the server is asked while nothing is sent, and while it fails. */
const PAUSES = { idleMs: 30_000, failingMs: 10_000 }

export interface SmtpWatchOptions {
  mailer: Mailer
  /** Asks the server whether it would take mails. Throws when it would not. */
  probe: () => Promise<unknown>
  logger: Logger
  now: () => Date
  pauses?: typeof PAUSES
}

/** Whether the mail server can be used, known also when there is nothing to send. What takes a minute is reported, once. */
export class SmtpWatch {
  readonly #options: SmtpWatchOptions
  readonly #pauses: typeof PAUSES
  #timer: NodeJS.Timeout | undefined
  #isStopped = false
  #isProbing = false
  /** A mail failed: the server is asked, however lately another one went out. */
  #isSuspected = false
  #probedAt = Number.NEGATIVE_INFINITY
  #sentAt = Number.NEGATIVE_INFINITY
  #failing: { since: number; reason: string; isReported: boolean } | null = null

  constructor(options: SmtpWatchOptions) {
    this.#options = options
    this.#pauses = options.pauses ?? PAUSES
  }

  get isUp(): boolean {
    return this.#failing === null
  }

  /** Why the server has not been usable for a minute or longer, null when it has been. */
  get awayReason(): string | null {
    return this.#failing !== null && this.#failingMs() >= AWAY_AFTER_MS ? this.#failing.reason : null
  }

  /** The mailer, whose successes and failures tell the watch. */
  get mailer(): Mailer {
    const { mailer } = this.#options
    return {
      send: async (mail) => {
        try {
          await mailer.send(mail)
          this.#sentAt = performance.now()
          this.#recover()
        } catch (error) {
          // A server that refuses one mail is there. After other failures it is asked.
          if (error instanceof MailRefused) this.#recover()
          else this.#suspect()
          throw error
        }
      },
      close: () => mailer.close(),
    }
  }

  async start(): Promise<void> {
    this.#schedule(this.#pauses.idleMs)
  }

  /** Idempotent, safe before start. A question in flight ends by itself. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #suspect(): void {
    if (this.#isSuspected || performance.now() - this.#probedAt < this.#pauses.failingMs) return
    this.#isSuspected = true
    this.#schedule(0)
  }

  #schedule(ms: number): void {
    if (this.#isStopped || this.#isProbing) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#probe(), ms)
  }

  async #probe(): Promise<void> {
    this.#isProbing = true
    const isIdle = performance.now() - this.#sentAt >= this.#pauses.idleMs
    if (this.#isSuspected || this.#failing !== null || isIdle) await this.#ask()
    this.#isSuspected = false
    this.#isProbing = false
    this.#schedule(this.#failing === null ? this.#pauses.idleMs : this.#pauses.failingMs)
  }

  async #ask(): Promise<void> {
    this.#probedAt = performance.now()
    const since = this.#options.now().getTime()
    try {
      await this.#options.probe()
      this.#recover()
    } catch (error) {
      // A mail that went out meanwhile knows better.
      if (!this.#isStopped && this.#sentAt < this.#probedAt) this.#fail(since, describeError(error))
    }
  }

  #fail(since: number, reason: string): void {
    this.#failing = { since, isReported: false, ...this.#failing, reason }
    if (this.#failing.isReported || this.#failingMs() < AWAY_AFTER_MS) return
    this.#failing.isReported = true
    this.#options.logger.warn({ reason }, 'the mail server has been away for a minute: mails wait')
  }

  #recover(): void {
    if (this.#isStopped || this.#failing === null) return
    const { isReported } = this.#failing
    const awaySeconds = Math.round(this.#failingMs() / 1_000)
    this.#failing = null
    if (isReported) this.#options.logger.info({ awaySeconds }, 'the mail server is back')
  }

  #failingMs(): number {
    return this.#failing === null ? 0 : this.#options.now().getTime() - this.#failing.since
  }
}

import type { Logger } from 'pino'
import type { Encryption } from '../auth/store-secret.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import type { Language } from '../language.ts'
import { Loop } from '../loop.ts'
import type { OrderEvent } from '../orders/events.ts'
import { queueAccountMail } from './account-mail.ts'
import { STAFF_MAIL_KINDS, type StaffMailKind } from './mail-kinds.ts'
import { findNotices, lockStaffMails, noticeOrders, saveStaffMails, takeNotices } from './staff-notices.ts'

const MINUTE_MS = 60_000
/** Nobody needs yesterday's news: the console has them. */
const LIFETIME_MS = 86_400_000

export interface StaffMailSettings {
  /** The addresses. */
  to: readonly string[]
  orders: 'at_once' | 'hourly' | 'never'
  language: Language
}

export interface StaffMailsOptions extends StaffMailSettings {
  pool: Pool
  encryption: Encryption
  /** Whether the mail server is unavailable: what happens meanwhile is told in one mail, later. */
  isHeldUp?: () => boolean
  logger: Logger
  now: () => Date
}

/**
 * Mails the staff about new orders, sold-out products and mails that no customer has got: a mail of each kind a minute at
 * most, whatever the number of processes, and each thing once.
 */
export class StaffMails {
  readonly #options: StaffMailsOptions
  readonly #kinds: readonly StaffMailKind[]
  readonly #loop: Loop
  /** When the next mail about orders may be made, in milliseconds of `performance.now()`. */
  #pausedUntil = 0

  constructor(options: StaffMailsOptions) {
    this.#options = options
    this.#kinds = STAFF_MAIL_KINDS.filter((kind) => kind !== 'staff_orders' || options.orders !== 'never')
    const { logger } = options
    this.#loop = new Loop({
      everyMs: MINUTE_MS,
      work: (signal) => this.queueDue(signal),
      onFailure: (error, { isFirst, retryMs }) => {
        this.#pausedUntil = performance.now() + retryMs
        if (isFirst) logger.error({ err: loggableError(error) }, 'staff mails cannot be made; this is retried in a minute')
      },
      onRecovered: () => logger.info('staff mails are made again'),
    })
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /** Notes new orders, which are told if `tx` commits. Returns whether there are any. */
  async noticeOrders(tx: Transaction, events: readonly OrderEvent[]): Promise<boolean> {
    const { orders, now } = this.#options
    return orders !== 'never' && noticeOrders(tx, events, now())
  }

  /** New orders are committed. */
  wake(): void {
    if (this.#options.orders === 'at_once' && performance.now() >= this.#pausedUntil) this.#loop.wake()
  }

  /** Queues the mails that are due: one round. */
  async queueDue(signal?: AbortSignal): Promise<void> {
    for (const kind of this.#kinds) {
      if (signal?.aborted) return
      const pauseMs = await this.#queue(kind)
      if (kind === 'staff_orders') this.#pausedUntil = performance.now() + pauseMs
    }
  }

  /** Queues the next mail of a kind, if one is due. Returns how long the one after it has to wait. */
  async #queue(kind: StaffMailKind): Promise<number> {
    const { pool, encryption, to, language, orders, now } = this.#options
    const isHeldUp = this.#options.isHeldUp?.() === true
    return inTransaction(pool, async (tx) => {
      const state = await lockStaffMails(tx, kind)
      await findNotices(tx, kind, state.since, state.is_first)
      const isDue = state.pause_ms === 0 && !isHeldUp
      const notices = isDue ? await takeNotices(tx, kind, kind === 'staff_orders' && orders === 'hourly') : { count: 0, list: [] }
      const expiresAt = new Date(now().getTime() + LIFETIME_MS)
      if (notices.count > 0)
        for (const address of to) await queueAccountMail(tx, encryption, { kind, to: address, language, notices, expiresAt })
      await saveStaffMails(tx, kind, notices.count > 0)
      return notices.count > 0 || isHeldUp ? MINUTE_MS : state.pause_ms
    })
  }
}

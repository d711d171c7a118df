import type { Logger } from 'pino'
import type { Encryption } from '../auth/store-secret.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import type { Language } from '../language.ts'
import { Loop } from '../loop.ts'
import type { OrderEvent } from '../orders/events.ts'
import { findWaiting, queueAccountMail } from './account-mail.ts'
import { STAFF_MAIL_KINDS, type StaffMailKind } from './mail-kinds.ts'
import { receiverOfStaff } from './mail-share.ts'
import { findNotices, lockStaffMails, noticeOrders, saveStaffMails, takeNotices } from './staff-notices.ts'

const MINUTE_MS = 60_000
/** Staff need no older news, which the console has. */
const LIFETIME_MS = 86_400_000
/** A mail that waits longer was not accepted at the first attempt. */
const HELD_UP_MS = 30_000
/**
 * New mails wait until every address accepts mails again, so each address gets all news. After this time, the other
 * addresses stop waiting.
 */
const LONGEST_HOLD_MS = 15 * MINUTE_MS

export interface StaffMailSettings {
  /** The addresses of the staff. */
  to: readonly string[]
  orders: 'at_once' | 'hourly' | 'never'
  language: Language
}

export interface StaffMailsOptions extends StaffMailSettings {
  pool: Pool
  encryption: Encryption
  /** Whether the mail server is unavailable. One mail later reports everything that happens meanwhile. */
  isHeldUp?: () => boolean
  logger: Logger
  now: () => Date
}

/**
 * Mails the staff about new orders, sold-out products and undelivered customer mails. All processes together send at
 * most one mail of each kind in a minute. Each event is reported once.
 */
export class StaffMails {
  readonly #options: StaffMailsOptions
  readonly #kinds: readonly StaffMailKind[]
  readonly #loop: Loop
  /** The earliest time of the next mail about orders, in milliseconds of `performance.now()`. */
  #pausedUntil = 0

  constructor(options: StaffMailsOptions) {
    this.#options = options
    this.#kinds = STAFF_MAIL_KINDS.filter((kind) => kind !== 'staff_orders' || options.orders !== 'never')
    const { logger } = options
    this.#loop = new Loop({
      everyMs: MINUTE_MS,
      work: (signal) => this.queueDue(signal),
      onFailure(error, { isFirst }) {
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

  /** Notes new orders, which are reported if `tx` commits. Returns whether there were any. */
  async noticeOrders(tx: Transaction, events: readonly OrderEvent[]): Promise<boolean> {
    const { orders, now } = this.#options
    return orders !== 'never' && noticeOrders(tx, events, now())
  }

  /** Must be called after new orders were committed. */
  wake(): void {
    if (this.#options.orders === 'at_once' && performance.now() >= this.#pausedUntil) this.#loop.wake()
  }

  /** Queues one mail of each kind for which a mail is due. */
  async queueDue(signal?: AbortSignal): Promise<void> {
    const failures: unknown[] = []
    for (const kind of this.#kinds) {
      if (signal?.aborted) return
      let pauseMs = MINUTE_MS
      try {
        pauseMs = await this.#queue(kind)
      } catch (error) {
        // The failure of one kind does not stop the others.
        failures.push(error)
      }
      if (kind === 'staff_orders') this.#pausedUntil = performance.now() + pauseMs
    }
    if (failures.length > 0) throw failures[0]
  }

  /** The addresses that get a mail now. Empty if the mail must wait. */
  async #findAddresses(tx: Transaction): Promise<readonly string[]> {
    const { to, now } = this.#options
    const waiting = await findWaiting(tx, to.map(receiverOfStaff), now())
    const waitMs = (address: string) => {
      const expiresAt = waiting.get(receiverOfStaff(address))
      return expiresAt === undefined ? 0 : now().getTime() + LIFETIME_MS - expiresAt.getTime()
    }
    const isHeldUp = to.some((address) => waitMs(address) >= HELD_UP_MS && waitMs(address) < LONGEST_HOLD_MS)
    return isHeldUp ? [] : to.filter((address) => waitMs(address) < HELD_UP_MS)
  }

  /** Queues the next mail of a kind if it is due. Returns how long the mail after it must wait, in milliseconds. */
  async #queue(kind: StaffMailKind): Promise<number> {
    const { pool, encryption, language, orders, now } = this.#options
    const isAway = this.#options.isHeldUp?.() === true
    return inTransaction(pool, async (tx) => {
      const state = await lockStaffMails(tx, kind)
      const examinedTo = await findNotices(tx, kind, state.since, state.is_first)
      const isDue = state.pause_ms === 0 && !isAway
      const to = isDue ? await this.#findAddresses(tx) : []
      const notices = to.length > 0 ? await takeNotices(tx, kind, kind === 'staff_orders' && orders === 'hourly') : { count: 0, list: [] }
      const expiresAt = new Date(now().getTime() + LIFETIME_MS)
      if (notices.count > 0)
        for (const address of to) await queueAccountMail(tx, encryption, { kind, to: address, language, notices, expiresAt })
      await saveStaffMails(tx, kind, examinedTo, notices.count > 0)
      if (state.pause_ms > 0) return state.pause_ms
      return notices.count > 0 || to.length === 0 ? MINUTE_MS : 0
    })
  }
}

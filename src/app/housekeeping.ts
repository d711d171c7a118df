import type { Logger } from 'pino'
import { deleteOldRuns } from '../audit/audit-runs.ts'
import { deleteExpired, deleteUnusedGuests } from '../auth/delete-expired.ts'
import { deleteEmptyGroups } from '../catalogue/change-group.ts'
import { type RemovalCursor, removeOldProductEvents } from '../catalogue/product-events.ts'
import { deleteOldPurges } from '../catalogue/purge/purge-catalogue.ts'
import { deleteOldRankings } from '../catalogue/rankings.ts'
import type { Config } from '../config.ts'
import { MAX_CLOCK_DIFFERENCE_SECONDS, readClockDifference } from '../db/clock.ts'
import { isDatabaseOutage } from '../db/failures.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { deleteOldFigures } from '../figures/roll-up-orders.ts'
import { STALE_SECONDS } from '../http/cacheable.ts'
import { Loop } from '../loop.ts'
import { deleteOldStaffNotices } from '../mail/staff-notices.ts'
import { type Erasure, eraseDueAddresses, IS_ERASED } from '../orders/erase-addresses.ts'
import { expireGuestOrders, expireOrders } from '../orders/expire-orders.ts'
import { mendSearchTexts } from '../orders/mend-search-texts.ts'
import { deleteExpiredKeys } from '../orders/placing/idempotency.ts'
import type { LockSession, LockSessions } from '../topic/lock-session.ts'
import { deleteOldEvents } from '../webhooks/webhook-deliveries.ts'
import type { Service } from './service.ts'

const NAME = 'housekeeping'
const MINUTE_MS = 60_000

export interface HousekeepingOptions {
  pool: Pool
  sessions: LockSessions
  logger: Logger
  now: () => Date
}

/** A task of housekeeping. `run` returns counts for the log. */
export interface HousekeepingTask {
  name: string
  everyMinutes: number
  run: () => Promise<Record<string, number>>
}

export function erasureOf({ retainOrderAddressDays }: Config): Erasure {
  return { eraseCopies, retainDays: retainOrderAddressDays }
}

/** Runs due tasks once a minute in one API process, because API processes have the settings of orders. */
export function createHousekeeping(config: Config, { sessions, ...options }: HousekeepingOptions): Service {
  const { logger, now } = options
  const tasks = housekeepingTasks(config, options)
  const lastPeriods: LastPeriods = new Map()
  let session: LockSession | null = null
  const leave = async () => {
    await session?.leave(NAME)
    session = null
  }
  const loop = new Loop({
    everyMs: MINUTE_MS,
    firstMs: untilNextMinute(),
    async work(signal) {
      if (session?.lost.aborted) await leave()
      if (session === null) {
        session = sessions.join()
        // Another process has the lock and runs the tasks.
        if (!(await session.tryLock(NAME, signal))) await leave()
      }
      if (session !== null) {
        await assertClock(options)
        await runDueTasks(tasks, now(), logger, lastPeriods)
      }
      return untilNextMinute()
    },
    async onFailure(error, { isFirst }) {
      if (isFirst) logger.error({ err: loggableError(error) }, 'housekeeping failed; it is retried in a minute')
      await leave()
    },
  })
  return {
    start: () => loop.start(),
    async stop() {
      await loop.stop()
      await leave()
    },
  }
}

/** Throws if the tasks could delete what is not due. Another process, whose clock may be right, then runs them. */
export async function assertClock({ pool, now }: Pick<HousekeepingOptions, 'pool' | 'now'>): Promise<void> {
  const seconds = await readClockDifference(pool, () => now().getTime())
  if (Math.abs(seconds) > MAX_CLOCK_DIFFERENCE_SECONDS)
    throw new Error(`the clocks of this process and of the database differ by ${Math.round(Math.abs(seconds))} s: set them by NTP`)
}

function untilNextMinute(): number {
  return MINUTE_MS - (Date.now() % MINUTE_MS)
}

export function housekeepingTasks(config: Config, { pool, logger, now }: Omit<HousekeepingOptions, 'sessions'>): HousekeepingTask[] {
  const { pendingOrderTtlSeconds: ttlSeconds, guestPendingOrderTtlSeconds: guestTtlSeconds } = config
  const onFailed = (orderId: string, error: unknown) =>
    logger.error({ err: loggableError(error), orderId }, 'a pending order could not be cancelled; it is retried in a minute')
  const onNotErased = (userId: string, error: unknown) =>
    logger.error({ err: loggableError(error), userId }, 'the orders of a deleted account could not be erased; it is retried in a minute')
  const textsExamined = { last: 0 }
  const eventsExamined: RemovalCursor = { product_id: null, stream: null, version: null }
  return [
    { name: 'idempotency keys', everyMinutes: 1, run: async () => ({ deletedKeys: await deleteExpiredKeys(pool) }) },
    {
      name: 'pending orders',
      everyMinutes: 1,
      run: async () => {
        const ofGuests = guestTtlSeconds === null ? 0 : await expireGuestOrders(pool, guestTtlSeconds, now(), onFailed)
        return { cancelledOrders: ofGuests + (ttlSeconds === null ? 0 : await expireOrders(pool, ttlSeconds, now(), onFailed)) }
      },
    },
    {
      name: 'addresses',
      everyMinutes: 1,
      run: async () => ({ erasedAddresses: await eraseDueAddresses(pool, erasureOf(config), now(), onNotErased) }),
    },
    { name: 'search texts', everyMinutes: 1, run: async () => ({ mendedSearchTexts: await mendSearchTexts(pool, textsExamined) }) },
    { name: 'accounts', everyMinutes: 10, run: async () => ({ deletedFromAccounts: await deleteExpired(pool) }) },
    { name: 'guests', everyMinutes: 10, run: async () => ({ deletedGuests: await deleteUnusedGuests(pool) }) },
    {
      name: 'purges',
      everyMinutes: 60,
      run: async () => ({ deletedPurges: await deleteOldPurges(pool, config.sharedCacheSeconds + STALE_SECONDS) }),
    },
    { name: 'rankings', everyMinutes: 10, run: async () => ({ deletedRankings: await deleteOldRankings(pool) }) },
    { name: 'groups', everyMinutes: 60, run: async () => ({ deletedGroups: await deleteEmptyGroups(pool) }) },
    { name: 'audits', everyMinutes: 60, run: async () => ({ deletedAuditRuns: await deleteOldRuns(pool) }) },
    { name: 'webhooks', everyMinutes: 60, run: async () => ({ deletedWebhookEvents: await deleteOldEvents(pool, now()) }) },
    {
      name: 'catalogue events',
      everyMinutes: 60,
      run: async () => ({ removedCatalogueEvents: await removeOldProductEvents(pool, config.catalogueEventDays, now(), eventsExamined) }),
    },
    { name: 'staff notices', everyMinutes: 60, run: async () => ({ deletedStaffNotices: await deleteOldStaffNotices(pool) }) },
    { name: 'figures', everyMinutes: 60, run: async () => ({ deletedFigures: await deleteOldFigures(pool, now()) }) },
  ]
}

/** The period of a task's last run, by name. A round can take minutes, so the next one may begin late in a period. */
export type LastPeriods = Map<string, number>

/** Runs the due tasks. A failed task is logged, and the others still run. */
export async function runDueTasks(
  tasks: readonly HousekeepingTask[],
  now: Date,
  logger: Logger,
  lastPeriods: LastPeriods = new Map(),
): Promise<void> {
  const counts: Record<string, number> = {}
  for (const { name, everyMinutes, run } of tasks) {
    const period = Math.floor(now.getTime() / (everyMinutes * MINUTE_MS))
    if (lastPeriods.get(name) === period) continue
    try {
      Object.assign(counts, await run())
    } catch (error) {
      // The other tasks would fail too. The loop logs the outage once.
      if (isDatabaseOutage(error)) throw error
      logger.error({ err: loggableError(error), task: name }, `housekeeping failed; it is retried in ${everyMinutes} min`)
    }
    lastPeriods.set(name, period)
  }
  if (Object.values(counts).some((count) => count > 0)) logger.info(counts, 'housekeeping')
}

/** Erases the copies of orders in the tables of the topic and of webhooks. See docs/decisions/customers.md. */
export async function eraseCopies(tx: Transaction, orderIds: readonly string[]): Promise<void> {
  await tx.query(sql`select erase_addresses_in_topic(${orderIds})`)
  // These events are at least thirty days old, the minimum of RETAIN_ORDER_ADDRESS_DAYS, and are not sent again.
  await tx.query(sql`delete from webhook_events
    where event_id in (
      select orders.id || '.' || made.version
      from orders
      cross join order_versions(orders.version, status_history) as made (version)
      where orders.id = any(${orderIds}) and ${IS_ERASED}
    )`)
}

import { isDatabaseOutage } from '../db/failures.ts'
import type { Pool } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'
import { newTraceparent } from '../traceparent.ts'
import { type MoveOutcome, moveOrders, type TransitionContext } from './move-orders.ts'
import { LockedRows } from './placing/locked-rows.ts'

const AT_ONCE = 100
/** Bounds one run, so it can be stopped. After a long downtime the next runs continue. */
const MAX_ORDERS = 10_000
const REASON = 'not confirmed in time'

/** Gets the id of what could not be changed. */
export type OnFailed = (id: string, error: unknown) => void

/** Oldest first. Orders with an authorized or paid payment stay. Several processes may run it at once. */
export function expireOrders(pool: Pool, ttlSeconds: number, now: Date, onFailed: OnFailed = rethrow): Promise<number> {
  const before = new Date(now.getTime() - ttlSeconds * 1_000)
  return expire(
    pool,
    (after) => sql`select id, created_at
      from orders
      where status = 'pending' and created_at < ${before} and (created_at, id) > (${after.created_at}, ${after.id})
        -- Imported orders wait for the other shop's payment and are old on arrival. The index has the same condition.
        and status_history -> 0 -> 'imported' is null
        and (status_history -> 1 is null or not order_holds_money(status_history))
      order by created_at, id
      limit ${AT_ONCE}`,
    now,
    onFailed,
  )
}

/** Applies to orders of guests, and of accounts with a guest's limits, whose address is still unproven. */
export function expireGuestOrders(pool: Pool, ttlSeconds: number, now: Date, onFailed: OnFailed = rethrow): Promise<number> {
  const before = new Date(now.getTime() - ttlSeconds * 1_000)
  return expire(
    pool,
    (after) => sql`select distinct orders.id, held.created_at
      from guest_holds as held
      join orders on orders.id = held.order_id
      join users on users.id = orders.user_id
      where held.created_at < ${before} and (held.created_at, held.order_id) > (${after.created_at}, ${after.id})
        and orders.status = 'pending' and users.owner_id is null and users.email_verified_at is null
        and (status_history -> 1 is null or not order_holds_money(status_history))
      order by held.created_at, orders.id
      limit ${AT_ONCE}`,
    now,
    onFailed,
  )
}

interface DueOrder {
  id: string
  created_at: Date
}

async function expire(pool: Pool, dueAfter: (after: DueOrder) => Sql, now: Date, onFailed: OnFailed): Promise<number> {
  const context = { pool, lockedRows: new LockedRows(pool) }
  let cancelled = 0
  let after = { id: '00000000-0000-0000-0000-000000000000', created_at: new Date(0) }
  for (let seen = 0; seen < MAX_ORDERS; seen += AT_ONCE) {
    const { rows } = await pool.query<DueOrder>(sql`${dueAfter(after)}`)
    const last = rows.at(-1)
    if (last === undefined) break
    const ids = rows.map(({ id }) => id)
    const outcomes = await expireTogether(context, ids, now).catch((error) => {
      if (isDatabaseOutage(error)) throw error
      return expireOneByOne(context, ids, now)
    })
    for (const [index, outcome] of outcomes.entries()) {
      if (outcome.kind === 'moved') cancelled += 1
      // An AppError means that another transaction has moved the order or locks rows that this move needs.
      if (outcome.kind === 'refused' && !(outcome.error instanceof AppError)) onFailed(ids[index] ?? '', outcome.error)
    }
    after = last
  }
  return cancelled
}

function expireTogether(context: TransitionContext, ids: readonly string[], now: Date, patienceMs?: number): Promise<MoveOutcome[]> {
  const common = {
    to: 'cancelled',
    from: 'pending',
    unlessMoneyIsHeld: true,
    actor: { type: 'system', id: null },
    reason: REASON,
    traceparent: newTraceparent(),
  } as const
  return moveOrders(
    context,
    ids.map((orderId) => ({ ...common, orderId })),
    now,
    patienceMs,
  )
}

async function expireOneByOne(context: TransitionContext, ids: readonly string[], now: Date): Promise<MoveOutcome[]> {
  const outcomes: MoveOutcome[] = []
  for (const id of ids) {
    try {
      outcomes.push(...(await expireTogether(context, [id], now, 0)))
    } catch (error) {
      if (isDatabaseOutage(error)) throw error
      outcomes.push({ kind: 'refused', error })
    }
  }
  return outcomes
}

export function rethrow(_id: string, error: unknown): never {
  throw error
}

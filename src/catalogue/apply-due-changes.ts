import type { Logger } from 'pino'
import { auditContextOfCommand, difference, recordActivities } from '../activity/record-activity.ts'
import { canOneRowBeAtFault, isTimeout } from '../db/failures.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { Loop } from '../loop.ts'
import type { Money } from '../money.ts'
import { changeCatalogue } from './change-catalogue.ts'
import type { StoredPrices } from './offered-prices.ts'
import { BUSY_BATCH_SIZE, hasRecentOrders } from './recent-orders.ts'

/** The longest delay of a schedule that is entered for now. */
const POLL_MS = 5_000
/** Products in one transaction while no orders arrive. */
const QUIET_BATCH_SIZE = 1_000
/** Pause while another transaction has locked a due product. */
const PAUSE_MS = 100
/** How long a quote waits for a product that another transaction changes. */
const TRY_MS = 200
/** How long a product is skipped after its change failed, so it does not delay others. */
const PASS_OVER_MS = 60_000
/** If this many products fail, the products are not the cause, so the loop fails. */
const MAX_PASSED_OVER = 1_000

interface ChangedState {
  is_listed: boolean
  price: Money
  prices: StoredPrices
}

/** Changes products at their scheduled times. Any number of processes may run this. */
export function createScheduledChanges({ pool, logger }: { pool: Pool; logger: Logger }): Loop {
  const passedOver = new Map<string, number>()
  let size = BUSY_BATCH_SIZE
  return new Loop({
    everyMs: POLL_MS,
    async work() {
      const beganAt = performance.now()
      for (const [id, untilMs] of passedOver) if (untilMs <= beganAt) passedOver.delete(id)
      const waitMs = await untilNextChange(pool, [...passedOver.keys()])
      if (waitMs > 0) return waitMs
      let ids: string[] = []
      try {
        await inTransaction(pool, async (tx) => {
          ids = await lockDueProducts(tx, [...passedOver.keys()], size)
          await applyDueChanges(tx, ids)
        })
      } catch (error) {
        const [id] = ids
        if (id === undefined || passedOver.size >= MAX_PASSED_OVER || !canOneRowBeAtFault(error)) throw error
        // Halves the batch until the failing product is alone.
        size = Math.ceil(ids.length / 2)
        if (ids.length > 1) return 0
        passedOver.set(id, performance.now() + PASS_OVER_MS)
        logger.error({ err: error, productId: id }, 'the scheduled change of a product could not be made, will retry')
      }
      if (ids.length === 0) return PAUSE_MS
      const takenMs = performance.now() - beganAt
      const isBusy = await hasRecentOrders(pool)
      size = Math.min(isBusy ? BUSY_BATCH_SIZE : QUIET_BATCH_SIZE, size * 2)
      return isBusy ? takenMs : 0
    },
    onFailure(error, { isFirst }) {
      if (isFirst) logger.error({ err: error }, 'scheduled changes of products could not be made, will retry')
    },
  })
}

/** Skips locked products, so this cannot deadlock. */
async function lockDueProducts(tx: Transaction, without: readonly string[], most: number): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    sql`select id
     from products
     where changes_at <= now() and id <> all(${without}::uuid[])
     order by changes_at
     limit ${most}
     for no key update skip locked`,
  )
  return rows.map(({ id }) => id)
}

/** The milliseconds until the next change, by the database's clock: 0 if one is due, at most `POLL_MS`. */
async function untilNextChange(pool: Pool, without: readonly string[]): Promise<number> {
  const { rows } = await pool.query<{ ms: number | null }>(
    sql`select extract(epoch from min(changes_at) - clock_timestamp())::float8 * 1000 as ms
     from products
     where changes_at is not null and id <> all(${without}::uuid[])`,
  )
  const ms = rows[0]?.ms ?? POLL_MS
  return Math.max(0, Math.min(Math.ceil(ms), POLL_MS))
}

/**
 * Makes these products' due changes by the database's clock, each with its event and activity. Locks the due products;
 * the caller may have locked their stock. See docs/decisions/catalogue-schedules.md.
 */
export async function applyDueChanges(tx: Transaction, productIds: readonly string[]): Promise<void> {
  const ids = await findDue(tx, productIds)
  if (ids.length === 0) return
  await changeCatalogue(tx, { ids, auditContext: null }, async () => {
    // Locks the categories that the trigger writes in id order, so two changes cannot deadlock.
    await tx.query(
      sql`select from categories
       where id in (
         select member.category_id
         from product_categories as member
         join products as product on product.id = member.product_id
         join categories as category on category.id = member.category_id
         where product.id = any(${ids}::uuid[]) and product.is_withheld and member.position = 0 and category.name <> product.category
       )
       order by id
       for no key update`,
    )
    // The trigger sets state and prices. Another transaction may have done so during the wait for the lock.
    const { rows: changed } = await tx.query<{ id: string; before: ChangedState; after: ChangedState }>(
      sql`update products
       set changes_at = null, updated_at = greatest(clock_timestamp(), products.updated_at + interval '1 millisecond')
       from products as before
       where before.id = products.id and products.id = any(${ids}::uuid[]) and products.changes_at <= clock_timestamp()
       returning products.id,
         ${stateOf(sql`before`)} as before,
         ${stateOf(sql`products`)} as after`,
    )
    await recordActivities(
      tx,
      auditContextOfCommand('scheduled change'),
      changed.flatMap(({ id, before, after }) => {
        const states = difference(before, after)
        return states === null ? [] : [{ subjectType: 'product' as const, subjectId: id, ...states }]
      }),
    )
    return { result: undefined, written: changed.map(({ id }) => id), activity: null }
  })
}

/**
 * Like `applyDueChanges`, in a transaction of its own, which begins only if a product is due. It changes nothing while
 * another transaction locks such a product.
 */
export async function tryDueChanges(pool: Pool, productIds: readonly string[]): Promise<void> {
  const ids = await findDue(pool, productIds)
  if (ids.length === 0) return
  try {
    await inTransaction(pool, (tx) => applyDueChanges(tx, ids), { lockTimeoutMs: TRY_MS })
  } catch (error) {
    if (!isTimeout(error)) throw error
  }
}

async function findDue(db: Queryable, productIds: readonly string[]): Promise<string[]> {
  if (productIds.length === 0) return []
  const { rows } = await db.query<{ id: string }>(
    sql`select id from products where id = any(${productIds}::uuid[]) and changes_at <= clock_timestamp()`,
  )
  return rows.map(({ id }) => id)
}

/** The row of the alias `row` as a `ChangedState`. */
function stateOf(row: Sql): Sql {
  return sql`json_build_object(
           'is_listed', ${row}.archived_at is null,
           'price', json_build_object('amount', ${row}.price_amount, 'currency', ${row}.price_currency),
           'prices', ${row}.prices
         )`
}

import type { Logger } from 'pino'
import type { Pool, Transaction } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { Loop } from '../../loop.ts'
import { changeCatalogue } from '../change-catalogue.ts'
import { IS_EDITED } from '../products.ts'
import { shareTree } from './category.ts'

/** Products in one transaction, which locks them for about `BATCH_MS`. */
const BATCH_SIZE = { first: 50, least: 10, most: 500 }
const BATCH_MS = 250
const POLL_MS = 10_000
/** Pause between two walks. Products that another transaction had locked wait for the next walk. */
const PAUSE_MS = 250

interface Renamed {
  id: string
  renamedAt: Date
}
/** A place among a category's members. */
interface Place {
  createdAt: Date
  id: string
}

interface Batch {
  /** Whether another transaction had locked a product. */
  hasSkipped: boolean
  /** Where the next batch begins. Null after the last batch. */
  last: Place | null
}

/** Writes the new names of renamed categories into their products' `category`. Any number of processes may run this. */
export function createCategoryRenaming({ pool, logger }: { pool: Pool; logger: Logger }): Loop {
  return new Loop({
    everyMs: POLL_MS,
    work: async (signal) => ((await renameProducts(pool, signal)) ? POLL_MS : PAUSE_MS),
    onFailure(error, { isFirst }) {
      if (isFirst) logger.error({ err: error }, 'products of a renamed category could not be changed, will retry')
    },
  })
}

/** Returns whether every product has its first category's name and an event with it; false after an abort or a skip. */
export async function renameProducts(pool: Pool, signal: AbortSignal): Promise<boolean> {
  const { rows } = await pool.query<Renamed>(
    `select id, renamed_at as "renamedAt" from categories where renamed_at is not null order by renamed_at`,
  )
  let isDone = true
  let size = BATCH_SIZE.first
  for (const category of rows) {
    let after: Place | null = null
    let hasSkipped = false
    do {
      if (signal.aborted) return false
      const from: Place | null = after
      const beganAt = performance.now()
      const batch: Batch = await inTransaction(pool, (tx) => renameBatch(tx, category.id, from, size))
      size = nextSize(size, performance.now() - beganAt)
      after = batch.last
      hasSkipped ||= batch.hasSkipped
    } while (after !== null)
    // The next walk finds the locked products, and those of categories that were renamed again.
    if (hasSkipped || !(await finish(pool, category))) isDone = false
  }
  return isDone
}

function nextSize(size: number, tookMs: number): number {
  const fitting = Math.round(size * Math.min(2, BATCH_MS / tookMs))
  return Math.min(BATCH_SIZE.most, Math.max(BATCH_SIZE.least, fitting))
}

async function renameBatch(tx: Transaction, categoryId: string, after: Place | null, size: number): Promise<Batch> {
  // Otherwise walks of several processes would lock the category without a pause. Correcting its name
  // would then wait for the last batch.
  await shareTree(tx)
  await keepNames(tx, sql`id = ${categoryId}`)
  const { rows: members } = await tx.query<Place>(
    sql`select created_at as "createdAt", product_id as id
     from product_categories
     where category_id = ${categoryId} and is_listed
       and (created_at, product_id) > (${after?.createdAt ?? '-infinity'}::timestamptz, ${after?.id ?? NO_ID}::uuid)
     order by created_at, product_id
     limit ${size}`,
  )
  // Skips locked products, so this cannot deadlock.
  const { rows: locked } = await tx.query<{ id: string }>(
    sql`select id from products where id = any(${members.map(({ id }) => id)}::uuid[]) for no key update skip locked`,
  )
  const ids = locked.map(({ id }) => id)
  await changeCatalogue(tx, { ids, auditContext: null }, async () => {
    await giveNames(tx, ids, sql`member.category_id = ${categoryId}`)
    return { result: undefined, written: ids, activity: null }
  })
  const last = members.length < size ? undefined : members.at(-1)
  return { hasSkipped: ids.length < members.length, last: last === undefined ? null : { createdAt: last.createdAt, id: last.id } }
}

/**
 * Writes the new category name into products at once if another category has taken the former one. Otherwise a change
 * to the former name would look like no change. Call it before a change that names a category, with the products
 * locked. Returns the changed ids.
 */
export async function renameBeforeChange(tx: Transaction, productIds: readonly string[]): Promise<string[]> {
  if (productIds.length === 0) return []
  await keepNames(
    tx,
    sql`id in (
      select member.category_id
      from product_categories as member
      join products as product on product.id = member.product_id
      where product.id = any(${productIds}::uuid[]) and member.position = 0 and ${IS_EDITED}
    )`,
  )
  return giveNames(
    tx,
    productIds,
    // Renames skip products outside the shop.
    sql`(products.is_withheld or (member.is_listed and category.renamed_at is not null))
      and exists (select from categories as other where other.name = products.category)`,
  )
}

/** Gives locked products their first category's name if `condition` is met. Returns the changed ids. */
async function giveNames(tx: Transaction, productIds: readonly string[], condition: Sql): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    sql`update products
     set category = category.name, updated_at = greatest(clock_timestamp(), products.updated_at + interval '1 millisecond')
     from product_categories as member
     join categories as category on category.id = member.category_id
     where products.id = any(${productIds}::uuid[]) and products.category <> category.name
       and member.product_id = products.id and member.position = 0 and ${condition}
     returning products.id`,
  )
  return rows.map(({ id }) => id)
}

/**
 * Locks these categories' names until the transaction ends, because a product with an outdated name would move to the
 * category that has it now. Renames wait for no product, so this cannot deadlock.
 */
async function keepNames(tx: Transaction, ofThese: Sql): Promise<void> {
  await tx.query(sql`select from categories where ${ofThese} order by id for key share`)
}

const NO_ID = '00000000-0000-0000-0000-000000000000'

/** Marks a category as done, unless it was renamed again since the walk began. */
async function finish(pool: Pool, { id, renamedAt }: Renamed): Promise<boolean> {
  const { rowCount } = await pool.query(sql`update categories set renamed_at = null where id = ${id} and renamed_at = ${renamedAt}`)
  return rowCount === 1
}

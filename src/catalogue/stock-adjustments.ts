import { type Static, Type } from 'typebox'
import type { Queryable, Transaction } from '../db/pool.ts'
import { noSql, type Sql, sql } from '../db/sql.ts'
import { notFound } from '../errors.ts'
import type { Page, Paging } from '../http/pagination.ts'
import { EXAMPLE_STOCK_ADJUSTMENT } from './examples.ts'
import { stockEventColumns } from './product-events.ts'
import { IS_EDITED } from './products.ts'

/** The author of a stock change outside orders: an operator, or the system (a command or the store itself). */
export interface StockActor {
  type: 'admin' | 'key' | 'system'
  id: string | null
}

export const SYSTEM: StockActor = { type: 'system', id: null }

/** A product's stock at one version. */
export interface StockLevel {
  /** It is null if stock is not tracked. */
  available: number | null
  version: number
}

const Available = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], { description })

export const StockAdjustmentSchema = Type.Object(
  {
    product_id: Type.String({ format: 'uuid' }),
    version: Type.Integer({ description: 'The version of the stock after the change.' }),
    kind: Type.Enum(['created', 'count', 'adjustment', 'import']),
    before: Available('Units before the change. Null if the stock was not tracked.'),
    after: Available('Units after the change. Null if the stock is not tracked.'),
    delta: Type.Union([Type.Integer(), Type.Null()], { description: '`after` − `before`. Null if one of them is null.' }),
    reference: Type.Union([Type.String(), Type.Null()]),
    reason: Type.Union([Type.String(), Type.Null()]),
    actor: Type.Object({
      type: Type.Enum(['admin', 'key', 'system'], {
        description: '`admin`: an operator. `key`: an API key. `system`: a command on the machine of the store.',
      }),
      id: Type.Union([Type.String(), Type.Null()]),
    }),
    created_at: Type.String({ format: 'date-time' }),
  },
  { title: 'StockAdjustment', examples: [EXAMPLE_STOCK_ADJUSTMENT] },
)
export type StockAdjustment = Static<typeof StockAdjustmentSchema>

/** The new level of a product whose stock is locked or does not exist yet. */
export interface StockWrite {
  productId: string
  isFirst: boolean
  before: number | null
  after: number | null
  reference: string | null
}

/**
 * Added to each version, so a restored or lagging database never repeats one. See docs/decisions/audit-incarnations.md.
 */
const INCARNATION = sql`coalesce((select max(number) from database_incarnations), 0)`
const STOCK_VERSION = sql`inventory.version + ${INCARNATION}`

/**
 * A product's stock, locked until the transaction ends. Every stock change starts here, before locking the product,
 * like orders. Throws `not_found`, also for an archived product.
 */
export function lockStockLevel(tx: Transaction, productId: string): Promise<StockLevel> {
  return selectStockLevel(tx, productId, sql`for update of inventory`)
}

/** Throws `not_found`, also for an archived product. */
export function getStockLevel(db: Queryable, productId: string): Promise<StockLevel> {
  return selectStockLevel(db, productId, noSql)
}

async function selectStockLevel(db: Queryable, productId: string, locking: Sql): Promise<StockLevel> {
  const { rows } = await db.query<StockLevel>(
    sql`select inventory.available, ${STOCK_VERSION} as version
    from inventory
    join products as product on product.id = inventory.product_id
    where inventory.product_id = ${productId} and ${IS_EDITED}
    ${locking}`,
  )
  if (rows[0] === undefined) throw notFound('product')
  return rows[0]
}

/** The stock of products among `productIds` that are not archived. */
export async function listStockLevels(db: Queryable, productIds: readonly string[]): Promise<(StockLevel & { product_id: string })[]> {
  const { rows } = await db.query<StockLevel & { product_id: string }>(
    sql`select inventory.product_id, inventory.available, ${STOCK_VERSION} as version
    from inventory
    join products as product on product.id = inventory.product_id
    where inventory.product_id = any(${productIds}::uuid[]) and ${IS_EDITED}
    order by inventory.product_id`,
  )
  return rows
}

/**
 * Writes differing levels and those of new products. Records each change with author and reason. Returns the changes in
 * any order.
 */
export async function writeStock(
  tx: Transaction,
  writes: readonly StockWrite[],
  { kind, reason, by }: Pick<StockAdjustment, 'kind' | 'reason'> & { by: StockActor },
): Promise<StockAdjustment[]> {
  const changes = writes
    .filter(({ isFirst, before, after }) => isFirst || before !== after)
    .map(({ productId, isFirst, before, after, reference }) => ({ product_id: productId, is_first: isFirst, before, after, reference }))
  if (changes.length === 0) return []
  const [added, changed] = [stockEventColumns(sql`after`), stockEventColumns(sql`change.after`, sql`inventory.event_level`)]
  const { rows } = await tx.query<AdjustmentRow>(
    sql`with change as materialized (
       select product_id, is_first, before, after, reference
       from json_to_recordset(${JSON.stringify(changes)}::json)
         as change (product_id uuid, is_first boolean, before bigint, after bigint, reference text)
     ), added as (
       insert into inventory (product_id, available, event_level, event_step)
       select product_id, after, ${added.level}, ${added.step} from change where is_first order by product_id
       returning product_id, version
     ), changed as (
       update inventory
       set available = change.after, version = inventory.version + 1, event_level = ${changed.level}, event_step = ${changed.step}
       from change
       where inventory.product_id = change.product_id and not change.is_first
       returning inventory.product_id, inventory.version
     ), listed as (
       update products
       set in_stock = change.after is distinct from 0, updated_at = greatest(clock_timestamp(), products.updated_at)
       from change
       where products.id = change.product_id and products.in_stock <> (change.after is distinct from 0)
     )
     insert into stock_adjustments (product_id, version, kind, available_before, available_after, reference, reason, actor_type, actor_id)
     select change.product_id, written.version, ${kind}, change.before, change.after, change.reference, ${reason}, ${by.type}, ${by.id}
     from change
     join (select product_id, version from added union all select product_id, version from changed) as written
       on written.product_id = change.product_id
     where change.after is distinct from change.before
     returning ${ADJUSTMENT_COLUMNS}`,
  )
  return rows.map(toAdjustment)
}

/** A product's relative stock change under this reference, if any. */
export async function findAdjustment(db: Queryable, productId: string, reference: string): Promise<StockAdjustment | null> {
  const { rows } = await db.query<AdjustmentRow>(
    sql`select ${ADJUSTMENT_COLUMNS}
    from stock_adjustments
    where product_id = ${productId} and reference = ${reference} and kind <> 'count'`,
  )
  return rows[0] === undefined ? null : toAdjustment(rows[0])
}

export const AdjustmentPosition = Type.Tuple([Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })])

/** A page of a product's stock changes, newest first. The product may be archived. Throws `not_found`. */
export async function listAdjustments(
  db: Queryable,
  productId: string,
  { limit, after, page }: Paging<Static<typeof AdjustmentPosition>>,
): Promise<Page<StockAdjustment>> {
  const before = after?.[0] ?? null
  const { rows } = await db.query<AdjustmentRow>(
    sql`select ${ADJUSTMENT_COLUMNS}
    from stock_adjustments
    where product_id = ${productId} and (${before}::bigint is null or version < ${before}::bigint - ${INCARNATION})
    order by stock_adjustments.version desc
    limit ${limit + 1}`,
  )
  if (rows.length === 0 && (await db.query('select from products where id = $1', [productId])).rowCount === 0) throw notFound('product')
  return page(rows, toAdjustment, (row) => [row.version])
}

const ADJUSTMENT_COLUMNS = sql`product_id, version + ${INCARNATION} as version, kind, available_before as before, available_after as after, delta, reference, reason,
  json_build_object('type', actor_type, 'id', actor_id) as actor, created_at`

type AdjustmentRow = Omit<StockAdjustment, 'created_at'> & { created_at: Date }

function toAdjustment(row: AdjustmentRow): StockAdjustment {
  return { ...row, created_at: row.created_at.toISOString() }
}

import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { MAX_RANKED } from './product-rules.ts'
import { type NewRanking, replaceRankings } from './rankings.ts'

const SOLD_DAYS = 30
/** Each new ranking is a change of the catalogue, which empties the page caches of all processes. */
const EVERY_MINUTES = 15
/** Rankings that one run writes. The next run writes the others. */
const MOST_WRITTEN = 500

export interface RankingOptions {
  /** A store whose newest ranking by best sellers is younger waits. */
  everyMinutes?: number
  signal?: AbortSignal
}

/**
 * Ranks the products by the units that were ordered in 30 days and not cancelled, in each category with those below it
 * and in the whole shop. Writes only rankings that differ. Any number of processes may run this.
 */
export async function rankBestSellers(pool: Pool, { everyMinutes = EVERY_MINUTES, signal }: RankingOptions = {}): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<{ is_alone: boolean }>(
      `select pg_try_advisory_xact_lock(hashtextextended('storefront best sellers', 0)) as is_alone`,
    )
    if (rows[0]?.is_alone !== true || !(await isDue(tx, everyMinutes))) return
    const differing = await findDiffering(tx)
    if (differing.length === 0 || signal?.aborted === true) return
    const isKept = await lockCategories(tx, differing)
    await replaceRankings(tx, 'best_selling', differing.filter(isKept))
  })
}

async function isDue(tx: Transaction, everyMinutes: number): Promise<boolean> {
  const { rowCount } = await tx.query(
    sql`select from (select created_at from product_rankings where sort = 'best_selling' order by id desc limit 1) as newest
    where created_at > now() - make_interval(mins => ${everyMinutes})`,
  )
  return rowCount === 0
}

/** The rankings that differ from the stored ones, the oldest first. An empty one has sold nothing any more. */
async function findDiffering(tx: Transaction): Promise<NewRanking[]> {
  const { rows } = await tx.query<NewRanking>(
    sql`with recursive branch (category_id, member_id) as (
      select id, id from categories
      union
      select category.parent_id, branch.member_id
      from branch
      join categories as category on category.id = branch.category_id
      where category.parent_id is not null
    ), cancelled as (
      -- The figures keep these orders, of which anybody can place and cancel many.
      select line.product_id, sum(line.quantity) as units
      from orders as placed
      cross join json_to_recordset(placed.items) as line (product_id uuid, quantity bigint)
      where placed.status = 'cancelled' and (placed.status_history -> 0 -> 'imported') is null
        and placed.created_at > now() - make_interval(days => ${SOLD_DAYS})
        and placed.created_at <= (select collected_at from figure_progress)
      group by line.product_id
    ), sold as materialized (
      select product.id, product.variant_group, figure.units - coalesce(cancelled.units, 0) as units
      from (
        select product_id, sum(quantity) as units
        from product_figures
        where slice > now() - make_interval(days => ${SOLD_DAYS})
        group by product_id
      ) as figure
      join products as product on product.id = figure.product_id and product.archived_at is null
      left join cancelled on cancelled.product_id = product.id
      where figure.units > coalesce(cancelled.units, 0)
    ), listed as (
      select null::uuid as category_id, id, variant_group, units from sold
      union all
      select distinct branch.category_id, sold.id, sold.variant_group, sold.units
      from sold
      join product_categories as member on member.product_id = sold.id and member.is_listed
      join branch on branch.member_id = member.category_id
    ), entry as (
      -- A group is ranked by the units of all its variants, and named by the variant with most of them.
      select category_id, (array_agg(id order by units desc, id desc))[1] as id, sum(units) as units
      from listed
      group by category_id, variant_group, case when variant_group is null then id end
    ), ranking as (
      select category_id, array_agg(id order by place) as product_ids
      from (
        select category_id, id, row_number() over (partition by category_id order by units desc, id desc) as place from entry
      ) as placed
      where place <= ${MAX_RANKED}
      group by category_id
    )
    select coalesce(ranking.category_id, present.category_id) as "categoryId", coalesce(ranking.product_ids, '{}') as "productIds"
    from ranking
    full join (
      select id, category_id, product_ids from product_rankings where sort = 'best_selling' and replaced_at is null
    ) as present on coalesce(present.category_id, ${NO_ID}::uuid) = coalesce(ranking.category_id, ${NO_ID}::uuid)
    where coalesce(ranking.product_ids, '{}') is distinct from present.product_ids
    order by present.id nulls first
    limit ${MOST_WRITTEN}`,
  )
  return rows
}

/** A full join compares by equality, and the whole shop has no category. */
const NO_ID = '00000000-0000-0000-0000-000000000000'

/** A category that was deleted meanwhile would refuse all rankings. */
async function lockCategories(tx: Transaction, rankings: readonly NewRanking[]): Promise<(ranking: NewRanking) => boolean> {
  const ids = rankings.map(({ categoryId }) => categoryId)
  const { rows } = await tx.query<{ id: string }>(sql`select id from categories where id = any(${ids}::uuid[]) order by id for key share`)
  const existing = new Set<string | null>([null, ...rows.map(({ id }) => id)])
  return ({ categoryId }) => existing.has(categoryId)
}

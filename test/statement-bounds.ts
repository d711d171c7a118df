import type { ExplainedStatement } from './explained-statements.ts'

/** Rows and pages that a statement may read for each row that it returns or writes, and for twenty more. */
const READ_PER_ROW = 30
const FREE_ROWS = 20

export function isBounded({ read, buffers, returned }: ExplainedStatement): boolean {
  return Math.max(read, buffers) <= READ_PER_ROW * (returned + FREE_ROWS)
}

/** A statement that may read more, up to `atMost` rows or pages, and why. The first that fits counts. */
interface StatementException {
  statement: RegExp
  atMost: number
  reason: string
  /** Whether it depends on how events come together in batches, so that some runs do not need it. */
  isSeldom?: true
}

const WHOLE = 300_000

const STATEMENT_EXCEPTIONS: readonly StatementException[] = [
  {
    statement: /^with (matching|attribute|candidate) as materialized/,
    atMost: WHOLE,
    reason: 'fault: facets and searches of what few products have walk a condition that most meet',
  },
  { statement: /^select count\(\*\) as (matches|members)/, atMost: 50_000, reason: 'a count ends at its bound' },
  {
    statement: /^select distinct on \(other\.variant_group\)/,
    atMost: 100_000,
    reason: 'the variants of the groups of a page, here 400 each',
  },
  {
    statement: /^select product\.id, (\( select slug|product\.variant_group)/,
    atMost: 60_000,
    reason: 'the last of some thousand places, and a currency beside a filter that few products meet',
  },
  {
    statement: /^select id from \( select (product\.id|member\.product_id) as id/,
    atMost: 20_000,
    reason: 'some thousand places of a list, whose products may not match',
  },
  {
    statement: /^with place as materialized/,
    atMost: WHOLE,
    reason: 'the products that one of the filters matches, where the places near have too few',
  },
  { statement: /^select customer\.id/, atMost: 3_000, reason: 'orders of each customer are counted up to a thousand' },
  {
    statement: /^(array\(select number from orders where number > after|select array_agg\(orders\.number)/,
    atMost: 10_000,
    reason: 'a batch of orders whose texts of the search are compared',
  },
  {
    statement: /^with recursive walk as/,
    atMost: 150_000,
    reason:
      'docs/decisions/orders-search.md: the orders of an era for a common word that new orders seldom have, and the newest 131,072 for a typing error',
    isSeldom: true,
  },
  {
    statement: /^select number from order_search_texts order by number desc offset/,
    atMost: 140_000,
    reason: 'docs/decisions/orders-search.md: the index of the newest 131,072 orders, of which those with typing errors are found',
  },
  {
    statement: /^select id from \(select id, email, name from users/,
    atMost: 12_000,
    reason: 'docs/decisions/orders-search.md: the newest 5,000 accounts of a role, of which those with typing errors are found',
  },
  {
    statement: /as buyer \(buyer_id\).*number = any\(/,
    atMost: 2_000,
    reason: 'docs/decisions/orders-search.md: 500 orders with what was typed, examined by the other filters',
  },
  {
    statement: /as buyer \(buyer_id\).*(created_at (>=|<) |product_ids @> )/,
    atMost: WHOLE,
    reason: 'docs/decisions/orders-lists.md: no index has the orders of a customer by time or product',
  },
  {
    statement: /^select (best\.product_id|currency, width_bucket|product_id, least\()/,
    atMost: WHOLE,
    reason: 'docs/decisions/figures.md: the rollups of 30 days',
  },
  {
    statement: /^select minute as created_at from order_figures/,
    atMost: 12_000,
    reason: 'docs/decisions/figures.md: the minutes of eight days, of which a process of the previous release has computed some',
    isSeldom: true,
  },
  {
    statement: /^select removed, product_id|^with reached as/,
    atMost: 10_000,
    reason: 'a batch of events that may be removed',
    isSeldom: true,
  },
  { statement: /^select case when count\(\*\) <= 2000 then/, atMost: 10_000, reason: 'a probe that ends after 2,000 products' },
  {
    statement: /^with entry as materialized/,
    atMost: WHOLE,
    reason: 'docs/decisions/catalogue-lists.md#rankings: 200 ranked products with the variants of their groups, here a thousand each',
  },
  {
    statement: /^select list\.category_id as "categoryId"/,
    atMost: 1_000,
    reason: 'docs/decisions/catalogue-lists.md#rankings: the groups of 200 ranked products',
  },
  { statement: /^with recursive branch as/, atMost: 3_000, reason: 'the categories of each of 200 placed products' },
  {
    statement: /^with recursive branch \(category_id/,
    atMost: 3 * WHOLE,
    reason: 'docs/decisions/catalogue-lists.md#rankings: the units of 30 days, seldom',
    isSeldom: true,
  },
  { statement: /^with member as/, atMost: 100_000, reason: 'the variants of the groups of a page, here 400 each' },
  {
    statement: /^with due as \( select id from orders where user_id = |^select min\(updated_at\) as oldest from orders/,
    atMost: WHOLE,
    reason: 'all orders of an account that is erased: each has an address to remove',
  },
  {
    statement: /^SELECT abort_unless\((count\(\*\) = cardinality\(taken_product_ids\)|not exists \(select from products where changes_at)/,
    atMost: 10_000,
    reason: 'a row of stock, or of what is due, for each of the thousand lines of an order',
    isSeldom: true,
  },
  {
    statement: /^(select from categories where id in|delete from product_prices using|update products set category = |with written as )/,
    atMost: 20_000,
    reason: 'a batch of 300 products of an import, most of which are as before',
  },
  {
    statement: /^(SELECT 1 FROM ONLY "public"\."product_categories"|delete from product_categories where category_id)/,
    atMost: 5_000,
    reason: 'index entries of products that have just left the category, until the first such look or a vacuum',
  },
  {
    statement: /^(delete from webhook_deliveries where endpoint_id|DELETE FROM ONLY "public"\."webhook_deliveries")/,
    atMost: 10_000,
    reason: 'index entries of the deliveries that were just removed with their endpoint, until a vacuum',
  },
  {
    statement: /^select id from (topic|catalogue)_messages where id = any/,
    atMost: 10_000,
    reason: 'a look-up for each event of a batch, none of which is there yet',
    isSeldom: true,
  },
  {
    statement: /^with change as materialized \( select snapshot\.product_id/,
    atMost: 50_000,
    reason: 'the categories, stock and texts of each product of a batch of events',
    isSeldom: true,
  },
]

export function exceptionOf({ text, read, buffers }: ExplainedStatement): StatementException | undefined {
  return STATEMENT_EXCEPTIONS.find(({ statement, atMost }) => statement.test(text) && Math.max(read, buffers) <= atMost)
}

/** Reasons of exceptions that none of these statements needs any more. */
export function unneededExceptions(statements: readonly ExplainedStatement[]): string[] {
  const needed = new Set(statements.filter((statement) => !isBounded(statement)).map(exceptionOf))
  return STATEMENT_EXCEPTIONS.filter((exception) => !exception.isSeldom && !needed.has(exception)).map(
    ({ statement, reason }) => `${statement}: ${reason}`,
  )
}

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
}

const WHOLE = 300_000

const STATEMENT_EXCEPTIONS: readonly StatementException[] = [
  {
    statement: /from search_words as known/,
    atMost: WHOLE,
    reason: 'spellings of a word that no product has: the words of the shop, not its products',
  },
  {
    statement: /^with (matching|attribute|candidate) as materialized/,
    atMost: WHOLE,
    reason: 'fault: facets and searches of what few products have walk a condition that most meet',
  },
  { statement: /not product\.in_stock/, atMost: WHOLE, reason: 'fault: no index has the few products that are not in stock' },
  { statement: /^select count\(\*\) as (matches|members)/, atMost: 50_000, reason: 'a count ends at its bound' },
  {
    statement: /^select distinct on \(other\.variant_group\)/,
    atMost: 100_000,
    reason: 'the variants of the groups of a page, here 400 each',
  },
  {
    statement: /^select product\.id, \( select slug/,
    atMost: 60_000,
    reason: 'fault: two conditions that many products meet, and few together',
  },
  { statement: /^select customer\.id/, atMost: 3_000, reason: 'orders of each customer are counted up to a thousand' },
  { statement: /^delete from sessions/, atMost: 100_000, reason: 'fault: all sessions are read every ten minutes' },
  { statement: /^with page as materialized/, atMost: WHOLE, reason: 'fault: all mails of one customer are read' },
  { statement: /as buyer \(buyer_id\)/, atMost: WHOLE, reason: 'fault: all orders of one customer are read for a period or a product' },
  { statement: /from inventory join products/, atMost: WHOLE, reason: 'decision 0192: no index for stock that runs out' },
  { statement: /from dead_letters as letter/, atMost: WHOLE, reason: 'fault: the topic is read whole where it has few messages a letter' },
  {
    statement: /^select (best\.product_id|method, route|currency, \(extract)/,
    atMost: WHOLE,
    reason: 'decision 0192: the rollups of a week',
  },
  { statement: /^select removed, product_id|^with reached as/, atMost: 10_000, reason: 'a batch of events that may be removed' },
  { statement: /^select case when count\(\*\) <= 2000 then/, atMost: 10_000, reason: 'a probe that ends after 2,000 products' },
  { statement: /^with member as/, atMost: 100_000, reason: 'the variants of the groups of a page, here 400 each' },
  { statement: /^SELECT t\.relname/, atMost: 10_000, reason: 'the job queue looks at the statistics of its tables' },
]

export function exceptionOf({ text, read, buffers }: ExplainedStatement): StatementException | undefined {
  return STATEMENT_EXCEPTIONS.find(({ statement, atMost }) => statement.test(text) && Math.max(read, buffers) <= atMost)
}

import type { Pool } from '../../db/pool.ts'
import { sqlState } from '../../db/sql-state.ts'
import { inTransaction } from '../../db/transaction.ts'
import { type StockActor, SYSTEM } from '../stock-adjustments.ts'
import type { ImportedProduct, ImportLine } from './imported-product.ts'
import { type Outcome, ProductMadeMeanwhile, type Refusal, upsertProducts } from './upsert-products.ts'

/** How many lines did what. A product is unchanged when neither it nor its stock differs from the file. */
export interface ImportResult {
  created: number
  updated: number
  unchanged: number
  failed: number
}

/** What became of a line. */
export type LineResult = { line: number; sku: string; outcome: Outcome } | { line: number; error: string }

interface NumberedProduct {
  line: number
  product: ImportedProduct
}

export interface ImportSettings {
  /** Lines of one transaction. */
  batchSize?: number
  /** Hears of each batch: how many lines have been dealt with so far. */
  onProgress?: (lines: number) => void
  /** Who changes stock. */
  by?: StockActor
}

const BATCH_SIZE = 1_000
/** Of a batch: its rows are written in one turn of the event loop. */
const MAX_BATCH_CHARACTERS = 1_000_000
// SQLSTATE classes of which a row is the cause. Anything else (the server is away, the disk is full) ends the import.
const ROW_FAULTS = new Set(['21', '22', '23', '54'])

/**
 * Makes or updates the product of every line, by its sku, and its stock where the line names it. `onError` hears of every line that
 * failed. Each batch is one transaction: an import that is cut off keeps the batches before. Running it again is safe but for lines
 * with a `stock_delta` and no `reference`, which add once more.
 */
export async function importCatalogue(
  pool: Pool,
  lines: AsyncIterable<ImportLine>,
  onError: (line: number, reason: string) => void,
  settings: ImportSettings = {},
): Promise<ImportResult> {
  const counts: ImportResult = { created: 0, updated: 0, unchanged: 0, failed: 0 }
  let done = 0
  for await (const results of importBatches(pool, lines, settings)) {
    for (const result of results) {
      if ('error' in result) onError(result.line, result.error)
      counts['error' in result ? 'failed' : result.outcome]++
    }
    done += results.length
    settings.onProgress?.(done)
  }
  return counts
}

/** Like `importCatalogue`, telling what became of each line as soon as its batch is stored, batch by batch. */
export async function* importBatches(
  pool: Pool,
  lines: AsyncIterable<ImportLine>,
  { batchSize = BATCH_SIZE, by = SYSTEM }: Pick<ImportSettings, 'batchSize' | 'by'>,
): AsyncGenerator<LineResult[]> {
  let batch: NumberedProduct[] = []
  let refused: LineResult[] = []
  let characters = 0
  const finish = async () => {
    const results = [...refused, ...(await storeBatch(pool, batch, by))].sort((a, b) => a.line - b.line)
    batch = []
    refused = []
    characters = 0
    return results
  }
  for await (const read of lines) {
    if ('error' in read) refused.push(read)
    else {
      batch.push(read)
      characters += read.product.description.length
    }
    if (batch.length >= batchSize || refused.length >= batchSize || characters >= MAX_BATCH_CHARACTERS) yield await finish()
  }
  if (batch.length + refused.length > 0) yield await finish()
}

async function storeBatch(pool: Pool, batch: readonly NumberedProduct[], by: StockActor): Promise<LineResult[]> {
  if (batch.length === 0) return []
  const products = batch.map(({ product }) => product)
  try {
    const outcomes = await upsertAgain(pool, products, by)
    return batch.map(({ line, product }, index) => toResult(line, product.sku, outcomes[index] ?? 'unchanged'))
  } catch (error) {
    const reason = rowFault(error)
    if (reason === null) throw error
    const [only, ...others] = batch
    if (only !== undefined && others.length === 0) return [{ line: only.line, error: reason }]
    // One row of the batch is at fault: in halves of halves, the others go in and the one is found.
    const middle = Math.ceil(batch.length / 2)
    return [...(await storeBatch(pool, batch.slice(0, middle), by)), ...(await storeBatch(pool, batch.slice(middle), by))]
  }
}

/** Until no other import has made one of the products meanwhile. Each time there is one more of them, so that it ends. */
async function upsertAgain(pool: Pool, products: readonly ImportedProduct[], by: StockActor): Promise<(Outcome | Refusal)[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await inTransaction(pool, (tx) => upsertProducts(tx, products, by))
    } catch (error) {
      if (!(error instanceof ProductMadeMeanwhile) || attempt > products.length) throw error
    }
  }
}

function toResult(line: number, sku: string, outcome: Outcome | Refusal): LineResult {
  return typeof outcome === 'string' ? { line, sku, outcome } : { line, error: outcome.refusal }
}

function rowFault(error: unknown): string | null {
  const state = sqlState(error)
  if (state === undefined || !ROW_FAULTS.has(state.slice(0, 2))) return null
  const { constraint } = error as { constraint?: string }
  return `the database refused the product (SQLSTATE ${state}${constraint === undefined ? '' : `, ${constraint}`})`
}

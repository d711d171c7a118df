import { setTimeout as delay } from 'node:timers/promises'
import type { AuditContext } from '../../activity/record-activity.ts'
import { translateConstraint } from '../../db/constraints.ts'
import type { Pool } from '../../db/pool.ts'
import { QUERY_CANCELED, sqlState } from '../../db/sql-state.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { BUSY_BATCH_SIZE, hasRecentOrders } from '../recent-orders.ts'
import type { ImportedProduct, ImportLine } from './imported-product.ts'
import { type Outcome, type Refusal, upsertProducts } from './upsert-products.ts'

/** Counts of lines. A line is unchanged if it changes neither the product nor its stock. */
export interface ImportResult {
  created: number
  updated: number
  unchanged: number
  failed: number
}

/** A line's outcome. */
export type LineResult = { line: number; sku: string; outcome: Outcome } | { line: number; error: string }

interface NumberedProduct {
  line: number
  product: ImportedProduct
}

export interface ImportSettings {
  /** The number of lines in a transaction. Called for each line with the number of waiting lines. */
  batchSize?: (waiting: number) => number | Promise<number>
  /** Called after each batch with the number of lines processed so far. */
  onProgress?: (lines: number) => void
  /** The import's author. Each batch with changes is recorded with its counts. */
  auditContext?: AuditContext | null
  /** Waits for a number of milliseconds. Tests replace it. */
  pause?: (ms: number) => Promise<unknown>
}

const BATCH_SIZE = 1_000
/**
 * The most product JSON in a transaction, about a thousand products of 500 bytes. A megabyte of long texts takes a
 * second or two, mostly for indexing words, and locks its products' stock.
 */
const MAX_BATCH_BYTES = 500_000
/** Recent orders are queried again after this time, because lines may arrive slowly. */
const ASK_AGAIN_MS = 1_000
// SQLSTATE classes of errors that a row causes. Any other error (server unavailable, disk full) ends the import.
const ROW_FAULTS = new Set(['21', '22', '23', '54'])

/**
 * Creates or updates the product of each line by its sku, and its stock if the line names it. Calls `onError` for each
 * failed line. Each batch is a transaction, so an interrupted import keeps its earlier batches. It can be repeated, but
 * lines with `stock_delta` and without `reference` are then added again.
 */
export async function importCatalogue(
  pool: Pool,
  lines: AsyncIterable<ImportLine>,
  onError: (line: number, reason: string) => void,
  settings: ImportSettings = {},
): Promise<ImportResult> {
  const counts: ImportResult = { created: 0, updated: 0, unchanged: 0, failed: 0 }
  for await (const results of importBesideOrders(pool, lines, settings)) {
    for (const result of results) {
      if ('error' in result) onError(result.line, result.error)
      counts['error' in result ? 'failed' : result.outcome]++
    }
  }
  return counts
}

/** Like `importBatches`. While orders arrive, batches are small, and a pause as long as the batch follows each. */
export async function* importBesideOrders(
  pool: Pool,
  lines: AsyncIterable<ImportLine>,
  settings: ImportSettings = {},
): AsyncGenerator<LineResult[]> {
  let lineCount = 0
  let isBusy = await hasRecentOrders(pool)
  let beganAt = performance.now()
  let askedAt = beganAt
  const batchSize = async (waiting: number) => {
    if (waiting >= BUSY_BATCH_SIZE && performance.now() - askedAt > ASK_AGAIN_MS) {
      isBusy = await hasRecentOrders(pool)
      askedAt = performance.now()
    }
    return isBusy ? BUSY_BATCH_SIZE : BATCH_SIZE
  }
  for await (const results of importBatches(pool, lines, { batchSize, ...settings })) {
    yield results
    lineCount += results.length
    settings.onProgress?.(lineCount)
    const tookMs = performance.now() - beganAt
    isBusy = await hasRecentOrders(pool)
    if (isBusy) await (settings.pause ?? delay)(tookMs)
    beganAt = askedAt = performance.now()
  }
}

/** Like `importCatalogue`, but without pauses. Yields the outcomes of each batch after it is stored. */
export async function* importBatches(
  pool: Pool,
  lines: AsyncIterable<ImportLine>,
  { batchSize = () => BATCH_SIZE, auditContext = null }: Pick<ImportSettings, 'batchSize' | 'auditContext'>,
): AsyncGenerator<LineResult[]> {
  let batch: NumberedProduct[] = []
  let refused: LineResult[] = []
  let sizeBytes = 0
  const finish = async () => {
    const results = [...refused, ...(await storeBatch(pool, batch, auditContext))].sort((a, b) => a.line - b.line)
    batch = []
    refused = []
    sizeBytes = 0
    return results
  }
  for await (const read of lines) {
    if ('error' in read) refused.push(read)
    else {
      batch.push(read)
      sizeBytes += Buffer.byteLength(JSON.stringify(read.product))
    }
    const waiting = Math.max(batch.length, refused.length)
    if (sizeBytes >= MAX_BATCH_BYTES || waiting >= (await batchSize(waiting))) yield await finish()
  }
  if (batch.length + refused.length > 0) yield await finish()
}

async function storeBatch(pool: Pool, batch: readonly NumberedProduct[], auditContext: AuditContext | null): Promise<LineResult[]> {
  if (batch.length === 0) return []
  const products = batch.map(({ product }) => product)
  try {
    const outcomes = await upsertWithRetry(pool, products, auditContext)
    return batch.map(({ line, product: { sku } }, index) => {
      const outcome = outcomes[index] ?? 'unchanged'
      return typeof outcome === 'string' ? { line, sku, outcome } : { line, error: outcome.refusal }
    })
  } catch (error) {
    const reason = rowFault(error)
    const [only, ...others] = batch
    const isAlone = only !== undefined && others.length === 0
    if (reason === null && (isAlone || sqlState(error) !== QUERY_CANCELED)) throw error
    if (isAlone && reason !== null) return [{ line: only.line, error: reason }]
    // A row is at fault, or the batch exceeds the statement timeout. Halves are stored separately until the row is
    // alone.
    const middle = Math.ceil(batch.length / 2)
    return [
      ...(await storeBatch(pool, batch.slice(0, middle), auditContext)),
      ...(await storeBatch(pool, batch.slice(middle), auditContext)),
    ]
  }
}

/** Retries while other imports create some of the products. Each attempt finds at least one more of them. */
async function upsertWithRetry(
  pool: Pool,
  products: readonly ImportedProduct[],
  auditContext: AuditContext | null,
): Promise<(Outcome | Refusal)[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await inTransaction(pool, (tx) => upsertProducts(tx, products, auditContext))
    } catch (error) {
      const refusal = translateConstraint(error)
      const isSkuTaken = refusal instanceof AppError && refusal.code === 'sku_taken'
      if (!isSkuTaken || attempt > products.length) throw error
    }
  }
}

function rowFault(error: unknown): string | null {
  const state = sqlState(error)
  if (state === undefined || !ROW_FAULTS.has(state.slice(0, 2))) return null
  const refusal = translateConstraint(error)
  if (refusal instanceof AppError) return refusal.message
  const { constraint } = error as { constraint?: string }
  return `the database refused the product (SQLSTATE ${state}${constraint === undefined ? '' : `, ${constraint}`})`
}

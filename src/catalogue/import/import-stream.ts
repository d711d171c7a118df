import { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { Pool } from '../../db/pool.ts'
import type { StockActor } from '../stock-adjustments.ts'
import { importBatches, type LineResult } from './import-catalogue.ts'
import { readImportLines } from './import-lines.ts'
import type { ImportLine } from './imported-product.ts'

/** More lines than this are for `storefront catalogue import`: their results wait in memory for a client that reads them late. */
const MAX_STREAMED_LINES = 100_000
const BATCH_SIZE = 500

export interface ImportStreamOptions {
  /** ISO 4217. */
  currency: string
  logger: Pick<Logger, 'error' | 'info'>
  /** Whether an error of `source` means that its client went away. */
  isBrokenOff: (error: unknown) => boolean
  onEnd: () => Promise<void>
  /** Who changes the stock. */
  by: StockActor
}

/**
 * Imports NDJSON as it comes in. Gives NDJSON: `{line, sku, outcome}` or `{line, error}` for each line, and in the end
 * `{created, updated, unchanged, failed}`, or `{error}` when the import broke off; what came before is stored then.
 */
export function importStream(
  pool: Pool,
  source: AsyncIterable<Uint8Array>,
  { currency, logger, isBrokenOff, onEnd, by }: ImportStreamOptions,
): Readable {
  async function* results(): AsyncGenerator<string> {
    const counts = { created: 0, updated: 0, unchanged: 0, failed: 0 }
    try {
      const lines = atMost(MAX_STREAMED_LINES, readImportLines(source, { format: 'ndjson', currency }))
      for await (const batch of importBatches(pool, lines, { batchSize: BATCH_SIZE, by })) {
        for (const result of batch) counts['error' in result ? 'failed' : result.outcome]++
        yield batch.map((result: LineResult) => `${JSON.stringify(result)}\n`).join('')
      }
      await onEnd()
      yield `${JSON.stringify(counts)}\n`
    } catch (error) {
      if (isBrokenOff(error)) {
        logger.info('the client of an import went away; the lines before are stored')
        return
      }
      logger.error({ err: error }, 'an import broke off')
      yield `${JSON.stringify({ error: 'the import broke off; the lines above are stored, the others may be sent again' })}\n`
    }
  }
  // Reads on while the client does not: one that sends everything before it reads would otherwise wait for us, and we for it.
  return Readable.from(results(), { highWaterMark: MAX_STREAMED_LINES })
}

async function* atMost(most: number, lines: AsyncGenerator<ImportLine>): AsyncGenerator<ImportLine> {
  let count = 0
  for await (const read of lines) {
    if (++count > most) {
      yield { line: read.line, error: `more than ${most.toLocaleString('en')} lines: this one and the following were not read` }
      return
    }
    yield read
  }
}

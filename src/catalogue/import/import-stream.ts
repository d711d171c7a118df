import { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { Doing } from '../../activity/record-activity.ts'
import { isTemporary } from '../../db/failures.ts'
import type { Pool } from '../../db/pool.ts'
import { importBatches, type LineResult } from './import-catalogue.ts'
import { type ImportFormat, readImportLines } from './import-lines.ts'
import type { ImportLine } from './imported-product.ts'

/** More lines need `storefront catalogue import`: their results stay in memory until the client reads them. */
const MAX_STREAMED_LINES = 100_000
const BATCH_SIZE = 500

export interface ImportStreamOptions {
  format: ImportFormat
  /** ISO 4217. */
  currency: string
  logger: Pick<Logger, 'error' | 'info' | 'warn'>
  /** Whether an error of `source` means that the client has disconnected. */
  isBrokenOff: (error: unknown) => boolean
  onEnd: () => Promise<void>
  doing: Doing
}

/**
 * Imports lines as they arrive. Returns NDJSON: `{line, sku, outcome}` or `{line, error}` for each line, then
 * `{created, updated, unchanged, failed}`, or `{error}` when the import was aborted; the lines before are stored.
 */
export function importStream(
  pool: Pool,
  source: AsyncIterable<Uint8Array>,
  { format, currency, logger, isBrokenOff, onEnd, doing }: ImportStreamOptions,
): Readable {
  async function* results(): AsyncGenerator<string> {
    const counts = { created: 0, updated: 0, unchanged: 0, failed: 0 }
    try {
      const lines = atMost(MAX_STREAMED_LINES, readImportLines(source, { format, currency }))
      for await (const batch of importBatches(pool, lines, { batchSize: () => BATCH_SIZE, doing })) {
        for (const result of batch) counts['error' in result ? 'failed' : result.outcome]++
        yield batch.map((result: LineResult) => `${JSON.stringify(result)}\n`).join('')
      }
      await onEnd()
      yield `${JSON.stringify(counts)}\n`
    } catch (error) {
      if (isBrokenOff(error)) {
        logger.info('the client of an import has disconnected; the lines so far are stored')
        return
      }
      const isUnavailable = isTemporary(error)
      if (isUnavailable) logger.warn({ reason: (error as Error).message }, 'an import was aborted: the database cannot answer')
      else logger.error({ err: error }, 'an import was aborted')
      const next = isUnavailable ? 'the others may be sent again' : 'the log of the store has the cause'
      yield `${JSON.stringify({ error: `the import was aborted; the lines above are stored, ${next}` })}\n`
    }
  }
  // Buffers all results: a client that sends everything before it reads would otherwise block, and the import with it.
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

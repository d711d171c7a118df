import { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { AuditContext } from '../../activity/record-activity.ts'
import { isTemporary } from '../../db/failures.ts'
import type { Pool } from '../../db/pool.ts'
import { importBatches, type LineResult } from './import-catalogue.ts'
import { type ImportFormat, readImportLines } from './import-lines.ts'
import type { ImportLine } from './imported-product.ts'

/** Results stay in memory until the client reads them. Larger files need `storefront catalogue import`. */
const MAX_STREAMED_LINES = 100_000
const BATCH_SIZE = 500

export interface ImportStreamOptions {
  format: ImportFormat
  encoding: string | undefined
  /** ISO 4217. */
  currency: string
  /** The time for the whole request. The server closes its connection soon afterwards. */
  remainingMs: number
  logger: Pick<Logger, 'error' | 'info' | 'warn'>
  /** Whether an error of `source` means that the client has disconnected. */
  isBrokenOff: (error: unknown) => boolean
  onEnd: () => Promise<void>
  auditContext: AuditContext
}

/**
 * Imports lines while they arrive. Returns NDJSON: `{line, sku, outcome}` or `{line, error}` for each line, then
 * `{created, updated, unchanged, failed}`. An interrupted import ends with `{error, code, line}`, whose `line` is the
 * last one with a result, or 0.
 */
export function importStream(
  pool: Pool,
  source: AsyncIterable<Uint8Array>,
  { format, encoding, currency, remainingMs, logger, isBrokenOff, onEnd, auditContext }: ImportStreamOptions,
): Readable {
  async function* results(): AsyncGenerator<string> {
    const counts = { created: 0, updated: 0, unchanged: 0, failed: 0 }
    let line = 0
    const cut = (code: 'import_too_slow' | 'unavailable' | 'internal', why: string) =>
      `${JSON.stringify({ error: describeCut(why, line), code, line })}\n`
    try {
      const bytes = untilDeadline(source, performance.now() + remainingMs)
      const lines = atMost(MAX_STREAMED_LINES, readImportLines(bytes, { format, currency, encoding }))
      for await (const batch of importBatches(pool, lines, { batchSize: () => BATCH_SIZE, auditContext })) {
        for (const result of batch) counts['error' in result ? 'failed' : result.outcome]++
        line = batch.at(-1)?.line ?? line
        yield batch.map((result: LineResult) => `${JSON.stringify(result)}\n`).join('')
      }
      await onEnd()
      yield `${JSON.stringify(counts)}\n`
    } catch (error) {
      if (isBrokenOff(error)) {
        logger.info({ line }, 'the client of an import has disconnected; the lines so far are stored')
        return
      }
      if (error instanceof TooSlow) {
        logger.info({ line }, 'an import was cut, because its request took too long; the lines so far are stored')
        await onEnd()
        yield cut('import_too_slow', 'a request ends after 25 seconds: larger files are for `storefront catalogue import`')
        return
      }
      const isUnavailable = isTemporary(error)
      if (isUnavailable) logger.warn({ reason: (error as Error).message, line }, 'an import was aborted: the database cannot answer')
      else logger.error({ err: error, line }, 'an import was aborted')
      yield isUnavailable ? cut('unavailable', 'the database cannot answer') : cut('internal', 'the log of the store has the cause')
    }
  }
  // Buffers all results. Otherwise a client that sends everything before reading would block itself and the import.
  return Readable.from(results(), { highWaterMark: MAX_STREAMED_LINES })
}

/** The body took longer than a request may. */
class TooSlow extends Error {
  override readonly name = 'TooSlow'
}

/** The chunks of `source`. Throws TooSlow at the deadline, even while a chunk is awaited. */
async function* untilDeadline(source: AsyncIterable<Uint8Array>, deadline: number): AsyncGenerator<Uint8Array> {
  const chunks = source[Symbol.asyncIterator]()
  const { promise: tooSlow, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new TooSlow()), Math.max(0, deadline - performance.now()))
  tooSlow.catch(() => {})
  try {
    for (;;) {
      const next = chunks.next()
      // The connection may break after the deadline, when this chunk is no longer awaited.
      next.catch(() => {})
      const { value, done } = await Promise.race([next, tooSlow])
      if (done) return
      yield value
    }
  } finally {
    clearTimeout(timer)
  }
}

function describeCut(why: string, line: number): string {
  const how =
    line === 0 ? 'no line has a result; send the file again' : `line ${line} is the last that has a result; send the following ones again`
  return `the import was cut: ${why}; ${how}`
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

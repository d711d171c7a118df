import assert from 'node:assert/strict'
import { readImportLines } from '../src/catalogue/import/import-lines.ts'
import type { Cleanup } from './cleanup.ts'
import { convertExport } from './convert-export.ts'
import { inPieces } from './in-pieces.ts'

export const NOW = new Date('2026-03-01T12:00:00Z')

/** Converts a file. Returns the products that the import reads from the result, and the converter's reports. */
export async function productsOf(t: Cleanup, shop: string, content: string, options: Partial<Parameters<typeof convertExport>[3]> = {}) {
  const { text, reports, ...counts } = await convertExport(t, [shop, 'products'], content, { now: NOW, ...options })
  const lines = await Array.fromAsync(readImportLines(inPieces(Buffer.from(text), []), { format: 'ndjson', currency: 'EUR' }))
  return { ...counts, reports, products: lines.map((line) => ('product' in line ? line.product : assert.fail(line.error))) }
}

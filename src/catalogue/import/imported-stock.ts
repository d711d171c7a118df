import { MAX_STOCK } from '../product-rules.ts'
import type { ImportedProduct } from './imported-product.ts'

/** A product's stock before and after an import line, or the reason for the line's refusal. */
export type StockDecision = { before: number | null; after: number | null; reference: string | null } | { refusal: string }

/** An existing product's locked stock. */
export interface PresentStock {
  available: number | null
  /** The units already booked under the line's reference, or null. */
  booked: number | null
}

/** The stock after a line with a number, a difference or neither. `present` is undefined for a new product. */
export function decideStock(
  line: Pick<ImportedProduct, 'stock' | 'stock_delta' | 'reference'>,
  present: PresentStock | undefined,
): StockDecision {
  const { stock, stock_delta: delta, reference = null } = line
  const { available = null, booked = null } = present ?? {}
  if (stock !== undefined) return { before: available, after: stock, reference: null }
  if (delta === undefined) return { before: available, after: available, reference: null }
  if (booked !== null && booked !== delta) return { refusal: `reference was booked before with a stock_delta of ${booked}` }
  if (booked !== null || (delta === 0 && present !== undefined)) return { before: available, after: available, reference: null }
  if (present !== undefined && available === null) return { refusal: 'stock_delta needs stock that is tracked: give stock first' }
  const before = available ?? 0
  const after = before + delta
  if (after < 0) return { refusal: `stock_delta would leave less than nothing: ${before} available` }
  if (after > MAX_STOCK) return { refusal: `stock_delta would make more than ${MAX_STOCK}` }
  return { before, after, reference }
}

import { sqlState } from '../db/sql-state.ts'
import type { Tally } from './tally.ts'

export interface MoveInOptions {
  source: string
  now: () => Date
  /** Whether to store nothing, and count what would be stored. */
  isDryRun: boolean
  /** Called for each line that is refused, or differs from an earlier import. */
  onProblem: (line: number, reason: string) => void
  onProgress?: (lines: number) => void
}

/**
 * The outcome of a line. `changed` means that the line differs from an earlier import, and the store keeps its own
 * value.
 */
export type LineOutcome = 'created' | 'unchanged' | 'changed' | 'linked' | 'erased' | 'refused'
export type OutcomeCounts = Record<LineOutcome, number>

export function noOutcomes(): OutcomeCounts {
  return { created: 0, unchanged: 0, changed: 0, linked: 0, erased: 0, refused: 0 }
}

/** The store was read after the commits. */
export interface MoveInResult {
  outcomes: OutcomeCounts
  source: Tally
  store: Tally
}

export const CHANGED = 'it differs from what was imported before; the store keeps what it has'

export interface Refusal {
  refusal: string
}

// SQLSTATE classes of errors that a row causes. Any other error, such as a full disk, ends the import.
const ROW_FAULTS = new Set(['21', '22', '23', '54'])

/** Stores a batch. Halves a refused batch until the faulty row is alone. The results are in the batch's order. */
export async function storeInParts<Line, Result>(
  batch: readonly Line[],
  store: (lines: readonly Line[]) => Promise<Result[]>,
): Promise<(Result | Refusal)[]> {
  if (batch.length === 0) return []
  try {
    return await store(batch)
  } catch (error) {
    const refusal = rowFault(error)
    if (refusal === null) throw error
    if (batch.length === 1) return [{ refusal }]
    const middle = Math.ceil(batch.length / 2)
    return [...(await storeInParts(batch.slice(0, middle), store)), ...(await storeInParts(batch.slice(middle), store))]
  }
}

function rowFault(error: unknown): string | null {
  const state = sqlState(error)
  if (state === undefined || !ROW_FAULTS.has(state.slice(0, 2))) return null
  const { constraint } = error as { constraint?: string }
  return `the database refused it (SQLSTATE ${state}${constraint === undefined ? '' : `, ${constraint}`})`
}

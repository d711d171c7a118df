import { sqlState } from '../db/sql-state.ts'
import type { Tally } from './tally.ts'

export interface MoveInOptions {
  source: string
  now: () => Date
  /** Stores nothing; counts what would be stored. */
  isDryRun: boolean
  /** Called for each line that was refused, or differs from what was moved in before. */
  onProblem: (line: number, reason: string) => void
  /** Called after each batch with the number of lines so far. */
  onProgress?: (lines: number) => void
}

/** The outcome of a line: `changed` differs from what was moved in before, and the store keeps what it has. */
export type LineOutcome = 'created' | 'unchanged' | 'changed' | 'linked' | 'erased' | 'refused'
export type OutcomeCounts = Record<LineOutcome, number>

export function noOutcomes(): OutcomeCounts {
  return { created: 0, unchanged: 0, changed: 0, linked: 0, erased: 0, refused: 0 }
}

/** The outcome of a file: the source as it is in the file, and the store as it was read after the commits. */
export interface MoveInResult {
  outcomes: OutcomeCounts
  source: Tally
  store: Tally
}

export const CHANGED = 'it differs from what was imported before; the store keeps what it has'

/** A line is refused by what is in the store. */
export interface Refusal {
  refusal: string
}

// SQLSTATE classes of errors that a row causes. Any other error (the server is unavailable, the disk is full) ends the import.
const ROW_FAULTS = new Set(['21', '22', '23', '54'])

/**
 * Stores a batch; when the database refuses it because of a row, stores its halves separately, until the row is alone and its refusal is known. The
 * results are in the order of the batch.
 */
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

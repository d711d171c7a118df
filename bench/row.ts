import { parseArgs } from 'node:util'
import { median, table } from './rig/measurement.ts'

/**
 * One round of a benchmark: the store's value and, measured right before or after it, the same machine's value without
 * the store.
 */
export interface Round {
  value: number
  floor?: number
}

/** Bounds for the ratio of value and floor. Without a floor, or if `isRatio` is false, they bound the value itself. */
export interface Goal {
  atLeast?: number
  atMost?: number
  isRatio?: boolean
}

/** A line of RESULTS.md. */
export interface Row {
  work: string
  /** The description of the floor. */
  heldAgainst?: string
  goal?: Goal
  /** The unit of values and floors. */
  unit: string
  rounds: Round[]
  /** Additional information for the reader. */
  note?: string
}

/** The options of every benchmark. `isQuick` means short rounds, to check that it runs and for a first estimate. */
export interface Options {
  rounds: number
  isQuick: boolean
}

export const DEFAULT_ROUNDS = 5
const QUICK_ROUNDS = 2

/** Reads a benchmark's common options, and its own ones in `more`. */
export function readOptions<More extends Record<string, string>>(args: string[], more: More): Options & { more: More } {
  const own = Object.fromEntries(Object.entries(more).map(([name, value]) => [name, { type: 'string' as const, default: value }]))
  const { values } = parseArgs({ args, options: { ...own, rounds: { type: 'string' }, quick: { type: 'boolean', default: false } } })
  const { rounds, quick, ...rest } = values as Record<string, string | boolean | undefined>
  const isQuick = quick === true
  return { rounds: Number(rounds ?? (isQuick ? QUICK_ROUNDS : DEFAULT_ROUNDS)), isQuick, more: rest as More }
}

/**
 * Measures store and floor in turns. The order alternates, so neither gains from a machine that becomes faster or
 * slower.
 */
export async function inTurns(rounds: number, store: () => Promise<number>, floor: () => Promise<number>): Promise<Round[]> {
  const all: Round[] = []
  for (let round = 0; round < rounds; round++) {
    const first = round % 2 === 0 ? await floor() : await store()
    const second = round % 2 === 0 ? await store() : await floor()
    all.push(round % 2 === 0 ? { floor: first, value: second } : { value: first, floor: second })
  }
  return all
}

/** The ratio of each round. Other load on the machine affects both of its sides. */
export function ratiosOf({ rounds }: Row): number[] {
  return rounds.flatMap(({ value, floor }) => (floor === undefined ? [] : [value / floor]))
}

/** Whether the median meets the goal; null if there is no goal. */
export function isMet(row: Row): boolean | null {
  if (row.goal === undefined) return null
  const { atLeast = Number.NEGATIVE_INFINITY, atMost = Number.POSITIVE_INFINITY } = row.goal
  const measured = median(isGoalOfRatio(row) ? ratiosOf(row) : row.rounds.map(({ value }) => value))
  return measured >= atLeast && measured <= atMost
}

function isGoalOfRatio(row: Row): boolean {
  return row.goal?.isRatio !== false && ratiosOf(row).length > 0
}

export const HEADER = ['Work', 'Held against', 'Goal', 'Ratio', 'Absolute', 'Floor', 'Rounds', 'Result']

/** The cells of a row: medians, with the smallest and largest value of the rounds in brackets. */
export function cellsOf(row: Row): string[] {
  const met = isMet(row)
  const floors = row.rounds.flatMap(({ floor }) => floor ?? [])
  const values = row.rounds.map(({ value }) => value)
  return [
    row.work,
    row.heldAgainst ?? '–',
    goalText(row),
    spread(ratiosOf(row), ''),
    spread(values, row.unit),
    spread(floors, row.unit),
    String(row.rounds.length),
    met === null ? 'measured' : met ? 'met' : '**missed**',
  ]
}

function goalText(row: Row): string {
  const { goal } = row
  if (goal === undefined) return '–'
  const unit = isGoalOfRatio(row) ? ' ×' : ` ${row.unit}`
  return goal.atLeast === undefined ? `≤ ${goal.atMost}${unit}` : `≥ ${goal.atLeast?.toLocaleString('en')}${unit}`
}

function spread(values: readonly number[], unit: string): string {
  if (values.length === 0) return '–'
  const [least, most] = [Math.min(...values), Math.max(...values)].map(format)
  const range = values.length === 1 || least === most ? '' : ` (${least} to ${most})`
  return `${format(median(values))}${unit === '' ? '' : ` ${unit}`}${range}`
}

function format(value: number): string {
  const digits = Math.abs(value) < 0.1 ? 4 : Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0
  return value.toLocaleString('en', { maximumFractionDigits: digits })
}

/** The rows as a table, followed by their notes. */
export function describe(rows: readonly Row[]): string {
  const notes = rows.filter(({ note }) => note !== undefined).map(({ work, note }) => `- ${work}: ${note}\n`)
  return `${table(HEADER, rows.map(cellsOf))}\n${notes.join('')}`
}

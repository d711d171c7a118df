import type { Operation } from './contract.ts'
import type { Verdict } from './judge.ts'

const CLASSES = ['2xx', '3xx', '4xx', '5xx'] as const
type Class = (typeof CLASSES)[number]

interface Counts extends Record<Class, number> {
  valid: number
  unsure: number
  invalid: number
  /** The number of valid requests that were not refused. */
  done: number
}

/** Counts each operation's requests by their kind and answer. */
export class Tally {
  readonly #counts: Map<string, Counts>

  constructor(operations: readonly Operation[]) {
    this.#counts = new Map(
      operations.map(({ name }) => [name, { valid: 0, unsure: 0, invalid: 0, done: 0, '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0 }]),
    )
  }

  count({ name }: Operation, { kind }: Verdict, status: number): void {
    const counts = this.#counts.get(name)
    if (counts === undefined) return
    counts[kind] += 1
    if (kind === 'valid' && status < 400) counts.done += 1
    counts[`${Math.floor(status / 100)}xx` as Class] += 1
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, { valid, unsure, invalid }) => sum + valid + unsure + invalid, 0)
  }

  /** Operations without a successful valid request. */
  neverDone(): string[] {
    return [...this.#counts].filter(([, { done }]) => done === 0).map(([name]) => name)
  }

  format(): string {
    const columns = ['valid', 'unsure', 'invalid', ...CLASSES] as const
    const width = Math.max(...[...this.#counts.keys()].map((name) => name.length))
    const row = (name: string, cells: readonly (string | number)[]) =>
      `${name.padEnd(width)}${cells.map((cell) => String(cell).padStart(9)).join('')}`
    const total = columns.map((column) => [...this.#counts.values()].reduce((sum, counts) => sum + counts[column], 0))
    return [
      row('route', columns),
      ...[...this.#counts].map(([name, counts]) =>
        row(
          name,
          columns.map((column) => counts[column]),
        ),
      ),
      row('all', total),
    ].join('\n')
  }
}

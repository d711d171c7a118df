export const UNREADABLE = 'unreadable'

/** Counts and sums by group, such as `EUR delivered`. Amounts are in minor units. */
export class Tally {
  readonly #groups = new Map<string, { count: number; amount: bigint }>()

  add(group: string, amount = 0n, count = 1): void {
    const present = this.#groups.get(group) ?? { count: 0, amount: 0n }
    this.#groups.set(group, { count: present.count + count, amount: present.amount + amount })
  }

  get groups(): string[] {
    return [...this.#groups.keys()].sort()
  }

  of(group: string): { count: number; amount: bigint } {
    return this.#groups.get(group) ?? { count: 0, amount: 0n }
  }
}

export interface ComparedGroup {
  group: string
  source: { count: number; amount: bigint }
  store: { count: number; amount: bigint }
  isEqual: boolean
}

export function compareTallies(source: Tally, store: Tally): ComparedGroup[] {
  const groups = [...new Set([...source.groups, ...store.groups])].sort()
  return groups.map((group) => {
    const [there, here] = [source.of(group), store.of(group)]
    return { group, source: there, store: here, isEqual: there.count === here.count && there.amount === here.amount }
  })
}

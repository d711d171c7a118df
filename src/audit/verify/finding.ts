export type Place =
  | 'database'
  | 'orders'
  | 'order counts'
  | 'order search'
  | 'products'
  | 'stock'
  | 'catalogue'
  | 'catalogue in the lake'
  | 'change stream'
  | 'topic'
  | 'mails'
  | 'lake'
  | 'tables'
/**
 * `unordered`: after a later version. `unknown`: no row in the database. `lost`: the change stream can deliver no more.
 * `restored`: the database has lost it. `dead-lettered`: no event could be made. `invalid`: the database would refuse
 * the row today. `moved`: metadata of another place.
 */
export type FindingKind =
  | 'missing'
  | 'doubled'
  | 'unordered'
  | 'corrupt'
  | 'altered'
  | 'unknown'
  | 'lost'
  | 'dead-lettered'
  | 'invalid'
  | 'restored'
  | 'moved'

export interface Finding {
  place: Place
  kind: FindingKind
  count: number
  /** Event ids, or rows or files with the reason. The first hundred. */
  examples: string[]
}

export const MAX_EXAMPLES = 100

export type Sample = Pick<Finding, 'count' | 'examples'>

export function findingOf(place: Place, kind: FindingKind, { count, examples }: Sample): Finding[] {
  return count === 0 ? [] : [{ place, kind, count, examples }]
}

export function listFindings(place: Place, kind: FindingKind, all: readonly string[]): Finding[] {
  return findingOf(place, kind, { count: all.length, examples: all.slice(0, MAX_EXAMPLES) })
}

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
 * The less obvious kinds: an `unordered` event follows a later version. An `unknown` one has no row in the database. A
 * `lost` change stream cannot deliver more. A `restored` database has lost events. No event could be made from a
 * `dead-lettered` row. The database would refuse an `invalid` row today. The metadata of a `moved` table name another
 * place.
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
  /** The ids of events, or rows or files with the reason. At most the first hundred. */
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

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
 * `altered`: the event's content differs there, or the product's. `unordered`: after a later version of the same. `unknown`: the database has no row of it. `lost`: the change stream can deliver nothing more.
 * `restored`: topic or lake have events that the database has lost. `dead-lettered`: no event could be made of the row. `invalid`: a row that
 * the database would refuse today. `moved`: metadata of another place.
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

/** A fault that a healthy store never has. */
export interface Finding {
  place: Place
  kind: FindingKind
  count: number
  /** Event ids, or rows or files with the reason; the first hundred. */
  examples: string[]
}

export const MAX_EXAMPLES = 100

/** A number of ids or faults, and the first hundred of them. */
export type Sample = Pick<Finding, 'count' | 'examples'>

/** A finding for the sample; none when it is empty. */
export function findingOf(place: Place, kind: FindingKind, { count, examples }: Sample): Finding[] {
  return count === 0 ? [] : [{ place, kind, count, examples }]
}

export function listFindings(place: Place, kind: FindingKind, all: readonly string[]): Finding[] {
  return findingOf(place, kind, { count: all.length, examples: all.slice(0, MAX_EXAMPLES) })
}

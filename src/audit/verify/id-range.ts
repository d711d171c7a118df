const FIRST = '00000000-0000-0000-0000-000000000000'
const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** A range of order ids, from `from` up to but without `below`. The ids of events begin with the id of their order. */
export interface IdRange {
  from: string
  below: string
}

/**
 * The ids of orders that were placed in a period. Imported orders have no time in their id, and most of their ids are
 * after all of these. They are therefore in the range without `to`.
 */
export function placedBetween({ from, to }: { from?: Date | undefined; to?: Date | undefined }): IdRange {
  return { from: from === undefined ? FIRST : idAt(from), below: to === undefined ? LAST : idAt(to) }
}

export function isInRange({ from, below }: IdRange, eventId: string): boolean {
  return eventId >= from && eventId < below
}

/** The lowest id of a time. A UUIDv7 begins with the milliseconds since 1970 (RFC 9562). */
function idAt(time: Date): string {
  const hex = Math.max(0, time.getTime()).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

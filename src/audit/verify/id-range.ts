const FIRST = '00000000-0000-0000-0000-000000000000'
const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Order ids from `from` to below `below`. Ids of events begin with them. */
export interface IdRange {
  from: string
  below: string
}

/** Moved-in orders have no time in their id: most are in the range without `to`. */
export function placedBetween({ from, to }: { from?: Date | undefined; to?: Date | undefined }): IdRange {
  return { from: from === undefined ? FIRST : idAt(from), below: to === undefined ? LAST : idAt(to) }
}

export function isInRange({ from, below }: IdRange, eventId: string): boolean {
  return eventId >= from && eventId < below
}

/** RFC 9562: a UUIDv7 begins with the milliseconds since 1970. */
function idAt(time: Date): string {
  const hex = Math.max(0, time.getTime()).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

import type { OrderEvent } from '../orders/events.ts'
import type { Recipient } from './webhook-endpoints.ts'

const DAY_MS = 86_400_000
// So long an event is posted that comes late, or again.
const POSTABLE_MS = 30 * DAY_MS
// As far as Standard Webhooks lets a receiver's clock be off: an event's time is by the clock of the API that made the change, before its
// commit, and an endpoint's by the database's.
const CLOCKS_DIFFER_MS = 5 * 60_000

/** How long it is known what became of an event: longer than it is posted, so that none is forgotten and posted again. */
export const KNOWN_MS = POSTABLE_MS + DAY_MS

export interface Wanted {
  pairs: { recipient: Recipient; event: OrderEvent }[]
  /** How many events somebody would get, were they not too old. */
  tooOld: number
}

/**
 * Which events are queued for which recipients: those of its types that are no older than the recipient itself, and none so old that it
 * may have been forgotten whether it was delivered. Pure.
 */
export function pairWanted(recipients: readonly Recipient[], events: readonly OrderEvent[], now: Date): Wanted {
  const { postable = [], tooOld = [] } = Object.groupBy(events, ({ time }) =>
    Date.parse(time) < now.getTime() - POSTABLE_MS ? 'tooOld' : 'postable',
  )
  return {
    pairs: recipients.flatMap((recipient) => postable.filter((event) => wants(recipient, event)).map((event) => ({ recipient, event }))),
    tooOld: tooOld.filter((event) => recipients.some((recipient) => wants(recipient, event))).length,
  }
}

function wants({ event_types, created_at }: Recipient, { type, time }: OrderEvent): boolean {
  return (event_types?.includes(type) ?? true) && Date.parse(time) >= created_at.getTime() - CLOCKS_DIFFER_MS
}

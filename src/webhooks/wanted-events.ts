import type { TopicEvent } from '../topic/topic.ts'
import type { Recipient } from './webhook-endpoints.ts'

const DAY_MS = 86_400_000
// The age of the oldest event that is still posted if it arrives late or again.
const POSTABLE_MS = 30 * DAY_MS
// The tolerance of Standard Webhooks. An event's time comes from the API's clock before the commit, an endpoint's time
// from the database.
const CLOCKS_DIFFER_MS = 5 * 60_000

/** How long deliveries are kept. This is longer than `POSTABLE_MS`, so no event is forgotten and then posted twice. */
export const KNOWN_MS = POSTABLE_MS + DAY_MS

export interface Wanted {
  pairs: { recipient: Recipient; event: TopicEvent }[]
  /** The number of events that an endpoint would have got if they were newer. */
  tooOld: number
}

/**
 * The events to queue for each recipient. They have one of its types, and happened after it was added. An event is too
 * old if the record of its delivery may already be deleted. Pure.
 */
export function pairWanted(recipients: readonly Recipient[], events: readonly TopicEvent[], now: Date): Wanted {
  const { postable = [], tooOld = [] } = Object.groupBy(events, ({ time }) =>
    Date.parse(time) < now.getTime() - POSTABLE_MS ? 'tooOld' : 'postable',
  )
  return {
    pairs: recipients.flatMap((recipient) => postable.filter((event) => wants(recipient, event)).map((event) => ({ recipient, event }))),
    tooOld: tooOld.filter((event) => recipients.some((recipient) => wants(recipient, event))).length,
  }
}

function wants({ event_types, created_at }: Recipient, { type, time }: TopicEvent): boolean {
  // An endpoint without types gets only order events. Otherwise an import would send it millions of product events.
  return (
    (event_types?.includes(type) ?? type.startsWith('storefront.order.')) && Date.parse(time) >= created_at.getTime() - CLOCKS_DIFFER_MS
  )
}

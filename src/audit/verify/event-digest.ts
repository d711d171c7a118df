import { sql } from '../../db/sql.ts'
import type { OrderEvent } from '../../orders/events.ts'

// The digest of an event is one text, so that places can be compared without their columns: status | previous status | total | currency |
// order number | user | number of lines. The two forms below must stay equal; `verify.long.test.ts` compares them.

export function eventDigest({ data: { order, previous_status } }: OrderEvent): string {
  const { status, total, number, user_id, items } = order
  return [status, previous_status ?? '', total.amount, total.currency, number, user_id, items.length].join('|')
}

/**
 * PostgreSQL: the digest of one version (a row `version` of `EACH_VERSION`) of a row of `orders`. Null when the history does not contain
 * every version, or the row is malformed.
 */
export const EVENT_DIGEST_IN_ORDERS = sql`
  case when orders.is_whole then concat_ws('|',
    status_history -> (version.place - 1) ->> 'status',
    case when version.place > 1 then status_history -> (version.place - 2) ->> 'status' else '' end,
    total_amount, currency, orders.number, user_id, json_array_length(items)
  ) end`

// The other content of the event's entry in the history, as one text: reference | carrier | number | url. The lake has none of it.

export function moveDetailsOf({ data: { order } }: OrderEvent): string {
  const { reference = '', tracking } = order.status_history.at(-1) ?? {}
  return [reference, tracking?.carrier ?? '', tracking?.number ?? '', tracking?.url ?? ''].join('|')
}

/** PostgreSQL: as `EVENT_DIGEST_IN_ORDERS`. */
export const MOVE_DETAILS_IN_ORDERS = sql`
  case when orders.is_whole then concat_ws('|',
    coalesce(status_history -> (version.place - 1) ->> 'reference', ''),
    coalesce(status_history -> (version.place - 1) -> 'tracking' ->> 'carrier', ''),
    coalesce(status_history -> (version.place - 1) -> 'tracking' ->> 'number', ''),
    coalesce(status_history -> (version.place - 1) -> 'tracking' ->> 'url', '')
  ) end`

import { sql } from '../../db/sql.ts'
import type { OrderEvent } from '../../orders/events.ts'

// The digest of an event is one text, so that places can be compared without their columns: status | previous status | total | currency |
// order number | user | number of lines. The two forms below must stay equal; `verify.long.test.ts` compares them.

export function eventDigest({ data: { order, previous_status } }: OrderEvent): string {
  const { status, total, number, user_id, items } = order
  return [status, previous_status ?? '', total.amount, total.currency, number, user_id, items.length].join('|')
}

/** PostgreSQL: the total after the changes up to a version; only of an order whose history has amounts is each entry read. */
const TOTAL_AT_VERSION = sql`
  case when jsonb_path_exists(status_history, '$[*].change.amount') then total_amount + coalesce((
    select sum((entry -> 'change' ->> 'amount')::numeric)
    from jsonb_array_elements(status_history) with ordinality as past (entry, entry_place)
    where entry_place <= version.place and jsonb_typeof(entry -> 'change' -> 'amount') = 'number'
  ), 0) else total_amount end`

/**
 * PostgreSQL: the digest of one version (a row `version` of `EACH_VERSION`) of a row of `orders`; null when the history
 * does not contain every version, or the row is malformed.
 */
export const EVENT_DIGEST_IN_ORDERS = sql`
  case when orders.is_whole then concat_ws('|',
    status_history -> (version.place - 1) ->> 'status',
    case when version.place > 1 then status_history -> (version.place - 2) ->> 'status' else '' end,
    ${TOTAL_AT_VERSION}, currency, orders.number, user_id, json_array_length(items)
  ) end`

// The other content of the event's entry in the history, as one text: reference | carrier | number | url, and of a change of lines
// type | amount | lines.

export function moveDetailsOf({ data: { order } }: OrderEvent): string {
  const { reference = '', tracking, change } = order.status_history.at(-1) ?? {}
  const details = [reference, tracking?.carrier ?? '', tracking?.number ?? '', tracking?.url ?? '']
  if (change === undefined) return details.join('|')
  const amount = 'amount' in change ? (change.amount ?? '') : ''
  const lines = 'lines' in change ? change.lines : []
  return [...details, change.type, amount, lines.map(({ product_id, quantity }) => `${product_id}:${quantity}`).join()].join('|')
}

/** PostgreSQL: as `EVENT_DIGEST_IN_ORDERS`. */
export const MOVE_DETAILS_IN_ORDERS = sql`
  case when orders.is_whole then concat_ws('|',
    coalesce(status_history -> (version.place - 1) ->> 'reference', ''),
    coalesce(status_history -> (version.place - 1) -> 'tracking' ->> 'carrier', ''),
    coalesce(status_history -> (version.place - 1) -> 'tracking' ->> 'number', ''),
    coalesce(status_history -> (version.place - 1) -> 'tracking' ->> 'url', ''),
    case when status_history -> (version.place - 1) -> 'change' is not null then concat_ws('|',
      coalesce(status_history -> (version.place - 1) -> 'change' ->> 'type', ''),
      coalesce(status_history -> (version.place - 1) -> 'change' ->> 'amount', ''),
      coalesce((
        select string_agg(concat_ws(':', line ->> 'product_id', line ->> 'quantity'), ',' order by line_place)
        from jsonb_path_query(status_history -> (version.place - 1), '$.change.lines[*]') with ordinality as moved (line, line_place)
      ), '')
    ) end
  ) end`

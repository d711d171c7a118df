import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { canonicalJson } from '../../encoding.ts'
import { renderResponse } from '../order.ts'
import type { GivenMembers } from '../order-columns.ts'
import { type IdempotencyKey, KEY_RETENTION_HOURS, type StoredResponse } from './idempotency.ts'

/** A name under which a person places no second order for some time: docs/decisions/orders-repeats.md. */
export interface Repeat {
  /**
   * `key` and `reference`: guests of one address share theirs. `content`: the same lines to the same address, by an
   * account or by guests of one address.
   */
  reason: 'key' | 'reference' | 'content'
  /** A keyed hash: it shows neither the person nor what was ordered. */
  name: string
  /** How old the earlier order must be. 0: any age, because the person means to order again. */
  seconds: number
}

/** The order that has a name. */
export interface EarlierOrder extends Omit<StoredResponse, 'fingerprint'> {
  userId: string
  ageSeconds: number
}

const KEY_SECONDS = KEY_RETENTION_HOURS * 3_600

interface Repeatable extends Pick<GivenMembers, 'clientReference' | 'shippingAddress'> {
  userId: string
  /** The address of a guest; null for an account. */
  guestEmail: string | null
  items: readonly { product_id: string; quantity: number }[]
  idempotencyKey: IdempotencyKey | null
  /** Within this time the same content is refused; 0 for never. */
  duplicateSeconds: number
  /** The person has seen that there is an earlier order, and means this one. */
  isMeant: boolean
}

/** The names of an order. `nameOf` is a keyed hash that all processes share. */
export function repeatsOf(order: Repeatable, nameOf: (what: string) => string): Repeat[] {
  const { userId, guestEmail, items, idempotencyKey: key, clientReference, shippingAddress, duplicateSeconds, isMeant } = order
  const content = [items.map(({ product_id, quantity }) => `${product_id} ${quantity}`).sort(), shippingAddress]
  const repeats: Repeat[] = []
  const add = (reason: Repeat['reason'], seconds: number, ...what: unknown[]) =>
    repeats.push({ reason, seconds, name: nameOf(canonicalJson(['order', reason, ...what])) })
  if (guestEmail !== null) {
    // The names contain what is ordered: a stranger's order with the same key or reference neither meets nor blocks it.
    if (key !== null) add('key', KEY_SECONDS, guestEmail, key.key, key.fingerprint.toString('hex'))
    if (clientReference !== null) add('reference', KEY_SECONDS, guestEmail, clientReference, ...content)
  }
  if (duplicateSeconds > 0) {
    add('content', isMeant ? 0 : duplicateSeconds, guestEmail ?? userId, ...content)
  }
  return repeats
}

/** The advisory lock key of a name. */
export function lockKeyOfRepeat({ name }: Repeat): string {
  return `repeat ${name}`
}

/** The earlier orders of these repeats, by name; with their answers for those of a key. */
export async function findEarlierOrders(tx: Transaction, repeats: readonly Repeat[]): Promise<Map<string, EarlierOrder>> {
  if (repeats.length === 0) return new Map()
  const namesOf = (wanted: readonly Repeat[]) => wanted.map(({ name }) => name)
  const { rows } = await tx.query<{
    name: string
    user_id: string
    order_id: string
    age: number
    response: string | null
    number: number | null
    items: string | null
  }>(
    sql`select name, order_repeats.user_id, order_repeats.order_id, extract(epoch from now() - order_repeats.created_at)::float8 as age,
        response, number, items::text as items
      from order_repeats
      left join idempotency_keys as keys on keys.user_id = order_repeats.user_id and keys.order_id = order_repeats.order_id
        and name = any (${namesOf(repeats.filter(({ reason }) => reason === 'key'))}::text[])
      left join orders on orders.id = keys.order_id
      where name = any (${namesOf(repeats)}::text[])`,
  )
  return new Map(
    rows.map(({ name, user_id, order_id, age, response, number, items }) => [
      name,
      {
        ...{ userId: user_id, orderId: order_id, ageSeconds: age },
        json: response === null || items === null ? null : renderResponse(response, String(number), items),
      },
    ]),
  )
}

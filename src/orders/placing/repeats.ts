import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { canonicalJson } from '../../encoding.ts'
import type { BasketLine } from '../basket.ts'
import { renderResponse } from '../order.ts'
import type { GivenMembers } from '../order-columns.ts'
import { type IdempotencyKey, KEY_RETENTION_HOURS, type PlacedOrder, replayOf, type StoredResponse } from './idempotency.ts'

/** A name under which a person places only one order for some time. See docs/decisions/orders-repeats.md. */
export interface Repeat {
  /**
   * Guests of one address share `key` and `reference`. `content` is the same lines to the same address. Operators and
   * API keys share `operator_key` for all customers.
   */
  reason: 'key' | 'reference' | 'content' | 'operator_key'
  /** A keyed hash, which reveals neither the person nor the products. */
  name: string
  /** Time in which an earlier order refuses this one. 0 when the person confirmed the repeat. */
  seconds: number
}

export interface EarlierOrder extends StoredResponse {
  userId: string
  ageSeconds: number
}

const KEY_SECONDS = KEY_RETENTION_HOURS * 3_600

/** Prefix of the names of operators' keys. These names identify no customer, and outlive a customer's erasure. */
export const OPERATOR_KEY_PREFIX = 'operator '

interface Repeatable extends Pick<GivenMembers, 'clientReference' | 'shippingAddress'> {
  userId: string
  /** A guest's address. It is null for an account. */
  guestEmail: string | null
  /** The account that owns the guest. */
  ownerId: string | null
  items: readonly BasketLine[]
  idempotencyKey: IdempotencyKey | null
  /** Time in which the same content is refused. 0 refuses nothing. */
  duplicateSeconds: number
  /** The person has seen the earlier order and confirms this one. */
  isMeant: boolean
  isOfOperator: boolean
}

export function repeatsOf(order: Repeatable, nameOf: (what: string) => string): Repeat[] {
  const {
    userId,
    guestEmail,
    ownerId,
    items,
    idempotencyKey: key,
    clientReference,
    shippingAddress,
    duplicateSeconds,
    isMeant,
    isOfOperator,
  } = order
  const lines = items.map(
    ({ product_id, quantity, attributes }) => `${product_id} ${quantity}${attributes ? canonicalJson(attributes) : ''}`,
  )
  const content = [lines.sort(), shippingAddress]
  const repeats: Repeat[] = []
  const add = (reason: Repeat['reason'], seconds: number, ...what: unknown[]) =>
    repeats.push({ reason, seconds, name: nameOf(canonicalJson(['order', reason, ...what])) })
  if (isOfOperator && key !== null) repeats.push(repeatOfOperatorKey(key, nameOf))
  if (guestEmail !== null) {
    // The names include the ordered lines, so a stranger's order with the same key or reference is independent.
    if (key !== null && !isOfOperator) add('key', KEY_SECONDS, guestEmail, key.key, key.fingerprint.toString('hex'))
    if (clientReference !== null) add('reference', KEY_SECONDS, guestEmail, clientReference, ...content)
  }
  if (duplicateSeconds > 0) {
    const persons = ownerId === null ? [guestEmail ?? userId] : [guestEmail ?? userId, ownerId]
    for (const person of persons) add('content', isMeant ? 0 : duplicateSeconds, person, ...content)
  }
  return repeats
}

function repeatOfOperatorKey({ key }: IdempotencyKey, nameOf: (what: string) => string): Repeat {
  const name = OPERATOR_KEY_PREFIX + nameOf(canonicalJson(['order', 'operator_key', key]))
  return { reason: 'operator_key', seconds: KEY_SECONDS, name }
}

export function isOfKey({ reason }: Repeat): boolean {
  return reason === 'key' || reason === 'operator_key'
}

/** The order that any operator or API key has placed with this key. Throws `idempotency_key_reused`. */
export async function findOperatorOrder(db: Queryable, key: IdempotencyKey, nameOf: (what: string) => string): Promise<PlacedOrder | null> {
  const { name, ...repeat } = repeatOfOperatorKey(key, nameOf)
  const earlier = (await findEarlierOrders(db, [{ name, ...repeat }])).get(name)
  return earlier === undefined || earlier.ageSeconds >= repeat.seconds ? null : replayOf(earlier, key)
}

export function lockKeyOfRepeat({ name }: Repeat): string {
  return `repeat ${name}`
}

/** Repeats of a key include the response. */
export async function findEarlierOrders(db: Queryable, repeats: readonly Repeat[]): Promise<Map<string, EarlierOrder>> {
  if (repeats.length === 0) return new Map()
  const namesOf = (wanted: readonly Repeat[]) => wanted.map(({ name }) => name)
  const { rows } = await db.query<{
    name: string
    user_id: string
    order_id: string
    age: number
    fingerprint: Buffer | null
    response: string | null
    number: number | null
    items: string | null
  }>(
    sql`select name, order_repeats.user_id, order_repeats.order_id, extract(epoch from now() - order_repeats.created_at)::float8 as age,
        fingerprint, response, number, items::text as items
      from order_repeats
      left join idempotency_keys as keys on keys.user_id = order_repeats.user_id and keys.order_id = order_repeats.order_id
        and name = any (${namesOf(repeats.filter(isOfKey))}::text[])
      left join orders on orders.id = keys.order_id
      where name = any (${namesOf(repeats)}::text[])`,
  )
  return new Map(
    rows.map(({ name, user_id, order_id, age, fingerprint, response, number, items }) => [
      name,
      {
        ...{ userId: user_id, orderId: order_id, ageSeconds: age, fingerprint },
        json: response === null || items === null ? null : renderResponse(response, String(number), items),
      },
    ]),
  )
}

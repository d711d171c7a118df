import { type Static, Type } from 'typebox'
import type { Client } from '../auth/client.ts'
import type { Throttle } from '../auth/throttle.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'
import { LANGUAGES, type Language } from '../language.ts'
import { withoutAttributes } from '../orders/line-attributes.ts'
import { type Order, OrderSchema, presentOrder } from '../orders/order.ts'
import { AdjustmentSchema, ParcelSchema } from '../orders/order-changes.ts'
import type { OrderStatus } from '../orders/order-status.ts'
import { getAnyOrder } from '../orders/orders.ts'
import { type ShippingAddress, ShippingAddressSchema } from '../orders/postal-address.ts'
import { EXAMPLE_LINKED_ORDER } from './examples.ts'
import { type OpenedLink, type OrderLinks, plainPostalCode } from './order-link.ts'

const { number, status, items, total, refunded, created_at, updated_at } = OrderSchema.properties
const LinkedAddress = Type.Omit(ShippingAddressSchema, ['phone'])

/** What the link in an order's mail shows: the customer's view, and the address after its postal code was entered. */
export const LinkedOrderSchema = Type.Object(
  {
    ...{ number, status, total, refunded, created_at, updated_at },
    items: { ...items, description: 'Without `attributes` until the postal code is sent.' },
    adjustments: Type.Array(Type.Omit(AdjustmentSchema, ['reference'])),
    parcels: Type.Array(Type.Omit(ParcelSchema, ['reference'])),
    history: Type.Array(Type.Object({ status, at: created_at }), {
      description: 'When the order reached each status, oldest first.',
    }),
    can_cancel: Type.Boolean({ description: 'Whether the shop lets its customers cancel the order now.' }),
    asks_postal_code: Type.Boolean({ description: 'Whether the order has an address that is shown once its postal code is sent.' }),
    shipping_address: Type.Union([LinkedAddress, Type.Null()], { description: 'Null until its postal code is sent.' }),
    billing_address: Type.Union([LinkedAddress, Type.Null()], {
      description:
        'Null until the postal code of the delivery address is sent. Always null if the two addresses differ in their postal codes, or if the delivery address has none.',
    }),
    vat_number: Type.Union([Type.String(), Type.Null()], {
      description: 'Shown together with `billing_address`, or with `shipping_address` if the order has no billing address.',
    }),
    language: Type.Enum([...LANGUAGES], { description: 'The language of mails about the order.' }),
    shop: Type.Union([Type.String(), Type.Null()], { description: 'The name of the shop, as in its mails.' }),
  },
  { title: 'LinkedOrder', examples: [EXAMPLE_LINKED_ORDER] },
)
export type LinkedOrder = Static<typeof LinkedOrderSchema>

export interface LinkedOrderContext {
  pool: Pool
  links: OrderLinks
  throttle: Throttle
  cancellableStatuses: readonly OrderStatus[]
  defaultLanguage: Language
  /** The shop's name, or null when it has none. */
  shop: string | null
  now: () => Date
}

/** The account that gets the order's mails. */
interface Reader {
  id: string
  email: string
  language: Language | null
}

export interface FoundByLink {
  link: OpenedLink
  order: Order
  reader: Reader
}

/** The order of a mail's link. Throws `invalid_order_link` for every invalid or ended link, or `rate_limited`. */
export async function getLinkedOrder(context: LinkedOrderContext, token: string, client: Client): Promise<FoundByLink> {
  // An expired link does not count as a guess, because its owner has it from an earlier mail.
  const link = await context.throttle.guardProof(client, async () => context.links.open(token))
  const found = link === null || link.expiresAt <= context.now() ? null : await findLinkedOrder(context, link, client)
  if (found !== null) return found
  throw new AppError('invalid_order_link', 'The link is not valid, or has ended. Use the one in the newest mail about the order.')
}

async function findLinkedOrder({ pool, throttle }: LinkedOrderContext, link: OpenedLink, client: Client): Promise<FoundByLink | null> {
  await throttle.countOrderLink(client, link.holder)
  const { rows } = await pool.query<Reader>(
    sql`select reader.id, reader.email, reader.language
    from orders
    join users as buyer on buyer.id = orders.user_id
    join users as reader on reader.id = coalesce(buyer.owner_id, buyer.id)
    where orders.id = ${link.orderId}`,
  )
  const [reader] = rows
  if (reader === undefined) return null
  const order = await getAnyOrder(pool, link.orderId)
  // Mails go to the order's own address if an amendment has set one.
  return link.isFor({ email: order.email ?? reader.email, shippingAddress: order.shippingAddress }) ? { link, order, reader } : null
}

/** Throws `wrong_postal_code`, even if the order has no address, or `rate_limited`. */
export async function assertPostalCode(
  { links, throttle }: LinkedOrderContext,
  { link, order }: FoundByLink,
  postalCode: string,
  client: Client,
): Promise<void> {
  const isRight = await throttle.guardPostalCode(client, link.holder, async () =>
    links.isPostalCodeOf(order.shippingAddress, postalCode) ? true : null,
  )
  if (isRight === null) throw new AppError('wrong_postal_code', 'This is not the postal code of the address of the order.')
}

/** `postalCode` is the code that `assertPostalCode` has accepted, or null when none was sent. */
export function presentLinkedOrder(
  { links, cancellableStatuses, defaultLanguage, shop }: LinkedOrderContext,
  { order, reader }: Omit<FoundByLink, 'link'>,
  postalCode: string | null,
): LinkedOrder {
  const { number, status, items, total, refunded, adjustments, parcels, created_at, updated_at, allowed_transitions } = presentOrder(
    order,
    cancellableStatuses,
  )
  const { shippingAddress, billingAddress, vatNumber } = order
  // The recipient of a present knows the delivery address's postal code, but must not see the buyer's address.
  const isBillingShown = postalCode !== null && links.isPostalCodeOf(billingAddress ?? shippingAddress, postalCode)
  return {
    ...{ number, status, total, refunded, created_at, updated_at },
    // A name in an engraving is as personal as the address.
    items: postalCode === null ? items.map(withoutAttributes) : items,
    // The references are left out, because they name the shop's internal documents.
    adjustments: adjustments.map(({ reference: _, ...adjustment }) => adjustment),
    parcels: parcels.map(({ reference: _, ...parcel }) => parcel),
    history: order.statusHistory
      .filter((entry, at) => entry.status !== order.statusHistory[at - 1]?.status)
      .map((entry) => ({ status: entry.status, at: entry.at })),
    can_cancel: allowed_transitions.includes('cancelled'),
    asks_postal_code: plainPostalCode(shippingAddress) !== '',
    shipping_address: postalCode === null ? null : withoutPhone(shippingAddress),
    billing_address: isBillingShown ? withoutPhone(billingAddress) : null,
    vat_number: isBillingShown ? vatNumber : null,
    language: reader.language ?? defaultLanguage,
    shop,
  }
}

function withoutPhone(address: ShippingAddress | null): Static<typeof LinkedAddress> | null {
  if (address === null) return null
  const { phone: _, ...shown } = address
  return shown
}

import { createOrderLinks, type LinkRecipient } from '../src/customers/order-link.ts'
import { createGuest, placeOrder } from './guests.ts'
import { TEST_SECRET, type TestStore } from './store.ts'

export const GUEST_ADDRESS = { name: 'Ada', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT', phone: '+43 1' }

export interface LinkedOrder {
  id: string
  number: string
  email: string
  guest: { id: string; token: string }
  /** The token of the link in a mail about it. */
  token: string
}

/** A token for the order's page, as a mail has it. */
export function makeOrderToken(orderId: string, recipient: Partial<LinkRecipient> & { email: string }, mailedAt = new Date()): string {
  const { email, shippingAddress = GUEST_ADDRESS } = recipient
  return createOrderLinks(TEST_SECRET).make({ orderId, mailedAt, email, shippingAddress })
}

/** An order of a new guest, with the token of its link. */
export async function placeLinkedOrder(store: TestStore, product: { id: string }, more: object = {}): Promise<LinkedOrder> {
  const email = `${crypto.randomUUID()}@example.com`
  const guest = await createGuest(store, email)
  const { json, text } = await placeOrder(store, guest.token, product, more)
  if (json.id === undefined) throw new Error(text)
  const token = makeOrderToken(json.id, { email, shippingAddress: json.shipping_address })
  return { id: json.id, number: json.number, email, guest, token }
}

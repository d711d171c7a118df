import { type Answer, type Requests, requestsOf, type TestStore } from './store.ts'

export interface Guest extends Requests {
  id: string
  email: string
  token: string
  refreshToken: string
}

export async function createGuest({ call }: Pick<TestStore, 'call'>, email: string): Promise<Guest> {
  const { status, json, text } = await call('POST', '/auth/guest', { body: { email } })
  if (status !== 201) throw new Error(`guest: ${status} ${text}`)
  const token = json.access_token
  return { id: json.user.id, email: json.user.email, token, refreshToken: json.refresh_token, ...requestsOf(call, token) }
}

/** Places an order of one unit, with an address. */
export async function placeOrder(
  { call }: Pick<TestStore, 'call'>,
  token: string,
  product: { id: string },
  more: object = {},
  headers: Record<string, string> = {},
): Promise<Answer> {
  const shipping_address = { name: 'Ada', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT', phone: '+43 1' }
  const body = { items: [{ product_id: product.id, quantity: 1 }], shipping_address, ...more }
  return call('POST', '/orders', { token, body, headers })
}

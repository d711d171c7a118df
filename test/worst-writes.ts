import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import type { Operation } from '../fuzz/contract.ts'
import type { Judge } from '../fuzz/judge.ts'
import type { Known } from '../fuzz/known.ts'
import { PASSWORD, validRequest } from '../fuzz/valid-request.ts'
import { MAX_RANKED } from '../src/catalogue/product-rules.ts'
import { LARGE_SHOP, productId } from './large-shop.ts'
import { pathsOf, type WorstIds } from './worst-requests.ts'

export interface WriteRequest {
  path: string
  headers: Record<string, string>
  /** The body; null where the operation takes none. */
  body: string | null
}

const MAX_LINES = 1_000
const SEED = 1
/** Bodies that the fuzzer makes for an operation, besides those below. */
const MADE = 2

const products = Array.from({ length: MAX_LINES - 10 }, (_, index) => productId(index + 11))
const LARGEST_ORDER = { items: products.map((product_id) => ({ product_id, quantity: 1 })) }
const EMAIL = 'customer0@example.com'
const price = { amount: 1_234, currency: 'EUR' }

/** Bodies that most rows hang on, and those that the fuzzer, which makes the others from the document, seldom makes. */
const LARGE_BODIES: Record<string, (ids: WorstIds) => readonly (object | string)[]> = {
  'POST /orders': () => [LARGEST_ORDER, { items: LARGEST_ORDER.items.slice(0, 1) }],
  'POST /orders/quote': () => [LARGEST_ORDER],
  'POST /admin/orders': () => [{ ...LARGEST_ORDER, email: EMAIL }],
  'POST /auth/guest': () => [{ email: EMAIL }],
  'POST /auth/password-reset': () => [{ email: EMAIL }],
  'POST /admin/orders/{id}/transitions': () => ['confirmed', 'shipped', 'delivered', 'returned'].map((to) => ({ to })),
  'POST /admin/orders/{id}/shipments': () => [{}],
  'POST /admin/orders/{id}/cancellations': () => [{}],
  'POST /admin/orders/{id}/returns': () => [{ restock: true }],
  'POST /admin/orders/{id}/amendments': () => [{ email: EMAIL }],
  'POST /admin/orders/{id}/adjustments': () => [{ kind: 'fee', label: 'Gift wrap', amount: { amount: 100, currency: 'EUR' } }],
  'PUT /admin/orders/{id}/payment': () => [{ provider: 'stripe', reference: 'pi_1', state: 'paid' }],
  'POST /admin/orders/{id}/refunds': () => [
    { amount: { amount: 1, currency: 'EUR' }, reference: 'r 1', payment: { provider: 'stripe', reference: 'pi_1' } },
  ],
  'POST /mail-events': ({ mails }) => mails.map((message_id) => ({ type: 'mail.bounced', data: { message_id } })),
  'PUT /admin/products/{id}/stock': () => [{ stock: 50 }],
  'POST /auth/register': () => [{ email: 'new@shop.example', password: PASSWORD }],
  'POST /admin/orders/transitions': ({ orders }) => [linesOf(orders.map((order_id) => ({ order_id, to: 'confirmed' })))],
  'POST /admin/products': () => [{ sku: 'NEW-1', name: 'Common lamp', category: 'Common', price, stock: 100 }],
  'POST /admin/products/import': () => [linesOf(importedProducts())],
  'PUT /admin/categories/{id}/products': () => [{ product_ids: products.slice(0, MAX_RANKED) }, { product_ids: [] }],
  'PATCH /admin/groups/{group}': () => [{ brand: 'Potter' }, { description: 'Another description', attributes: { material: 'wool' } }],
  'PATCH /admin/products/{id}': () => [
    { price },
    { name: 'Another name' },
    { category: LARGE_SHOP.category.few },
    { group: LARGE_SHOP.group },
  ],
}

const linesOf = (lines: readonly object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join('')
const importedProducts = () =>
  Array.from({ length: 300 }, (_, n) => ({ sku: `SKU-${n + 11}`, name: 'Common lamp', category: 'Common', price, stock: 100 }))

/**
 * Requests of an operation that writes, for each path that it may have. A new operation needs no more than its
 * document.
 */
export function worstWrites(operation: Operation, { judge, known, ids }: { judge: Judge; known: Known; ids: WorstIds }): WriteRequest[] {
  const made = fc.sample(validRequest({ operation, judge, known }), { seed: SEED, numRuns: MADE })
  const large = LARGE_BODIES[operation.name]?.(ids) ?? []
  const bodies = [...large.map((body) => (typeof body === 'string' ? body : JSON.stringify(body))), ...made.map(({ bodyText }) => bodyText)]
  const type: Record<string, string> = operation.body === null ? {} : { 'content-type': operation.body.type }
  const takes = (header: string) => operation.headers.some(({ name }) => name === header)
  const headersOf = (body: string | null): Record<string, string> => ({
    ...(body === null ? {} : type),
    ...(takes('if-match') ? { 'if-match': '*' } : {}),
    ...(takes('idempotency-key') ? { 'idempotency-key': randomUUID() } : {}),
  })
  return pathsOf(operation, ids).flatMap((path) => [...new Set(bodies)].map((body) => ({ path, body, headers: headersOf(body) })))
}

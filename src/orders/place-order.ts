import { randomUUIDv7 } from 'node:crypto'
import { findSellableProducts, type SellableProduct } from '../catalogue/products.ts'
import { type Shortage, takeStock } from '../catalogue/stock.ts'
import type { Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, type FieldError } from '../errors.ts'
import { findReplay, type IdempotencyKey, storeReplay } from './idempotency.ts'
import { type OrderItem, presentOrder, type ShippingAddress } from './order.ts'
import { insertOrder } from './orders.ts'
import { multiply, sum } from './price.ts'

export const MAX_LINES = 1_000
export const MAX_QUANTITY = 10_000

export interface OrderRequest {
  userId: string
  items: readonly { product_id: string; quantity: number }[]
  clientReference: string | null
  shippingAddress: ShippingAddress | null
  note: string | null
  idempotencyKey: IdempotencyKey | null
  traceparent: string
}

/** The answer of `POST /orders`: the order as JSON, ready to send and the same, byte for byte, for a retry. */
export interface PlacedOrder {
  orderId: string
  json: string
  isReplay: boolean
}

/**
 * Places an order: copies names and prices, takes the stock, stores the order and its idempotency key, all in one transaction.
 * Nothing is sent here: the pipeline reacts to the commit. Throws `unknown_product`, `mixed_currencies`, `total_too_large`,
 * `insufficient_stock`, `idempotency_key_reused` or `client_reference_taken`.
 */
export async function placeOrder(pool: Pool, request: OrderRequest, now: Date): Promise<PlacedOrder> {
  const lines = mergeLines(request.items)
  return inTransaction(pool, async (tx) => {
    const key = request.idempotencyKey
    const replay = key === null ? null : await findReplay(tx, key)
    if (replay !== null) return { orderId: JSON.parse(replay).id, json: replay, isReplay: true }

    const products = await findSellableProducts(
      tx,
      lines.map((line) => line.product_id),
    )
    const items = lines.map((line) => toItem(line, products.get(line.product_id)))
    if (items.includes(null)) throw unknownProducts(request.items, products)
    const known = items as OrderItem[]
    const total = sum(known.map((item) => item.total))
    const shortages = await takeStock(tx, lines)
    if (shortages.length > 0) throw insufficientStock(shortages, request.items)

    const order = await insertOrder(tx, {
      id: randomUUIDv7(),
      userId: request.userId,
      status: 'pending',
      items: known,
      total,
      clientReference: request.clientReference,
      shippingAddress: request.shippingAddress,
      note: request.note,
      version: 1,
      statusHistory: [{ status: 'pending', at: now.toISOString(), actor: { type: 'customer', id: request.userId }, reason: null }],
      traceparent: request.traceparent,
      createdAt: now,
      updatedAt: now,
    })
    const json = JSON.stringify(presentOrder(order))
    if (key !== null) await storeReplay(tx, key, order.id, json)
    return { orderId: order.id, json, isReplay: false }
  })
}

/** One line a product, in the order in which each was first named. Throws `invalid_body` past a limit. */
function mergeLines(items: OrderRequest['items']): { product_id: string; quantity: number }[] {
  const quantities = new Map<string, number>()
  for (const [index, item] of items.entries()) {
    const productId = item.product_id.toLowerCase()
    const quantity = (quantities.get(productId) ?? 0) + item.quantity
    if (quantity > MAX_QUANTITY) {
      throw new AppError('invalid_body', 'The body is not acceptable.', {
        errors: [{ pointer: `#/items/${index}/quantity`, detail: `the product's lines add up to more than ${MAX_QUANTITY}` }],
      })
    }
    quantities.set(productId, quantity)
  }
  if (quantities.size > MAX_LINES) {
    throw new AppError('invalid_body', 'The body is not acceptable.', {
      errors: [{ pointer: '#/items', detail: `must not name more than ${MAX_LINES} products` }],
    })
  }
  return [...quantities].map(([product_id, quantity]) => ({ product_id, quantity }))
}

function toItem(line: { product_id: string; quantity: number }, product: SellableProduct | undefined): OrderItem | null {
  if (product === undefined) return null
  const { id, sku, name, price } = product
  return { product_id: id, sku, name, unit_price: price, quantity: line.quantity, total: multiply(price, line.quantity) }
}

function unknownProducts(items: OrderRequest['items'], products: ReadonlyMap<string, unknown>): AppError {
  const errors = items.flatMap((item, index): FieldError[] => {
    if (products.has(item.product_id.toLowerCase())) return []
    return [{ pointer: `#/items/${index}/product_id`, detail: 'there is no such product' }]
  })
  return new AppError('unknown_product', 'The order names products that do not exist.', { errors })
}

function insufficientStock(shortages: Shortage[], items: OrderRequest['items']): AppError {
  const errors = shortages.map((shortage) => {
    const index = items.findIndex((item) => item.product_id.toLowerCase() === shortage.product_id)
    return { pointer: `#/items/${index}/quantity`, detail: `${shortage.available} available, ${shortage.requested} requested` }
  })
  return new AppError('insufficient_stock', 'There is not enough stock. Nothing was reserved.', { errors, members: { shortages } })
}

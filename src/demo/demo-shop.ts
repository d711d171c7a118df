import { randomInt, randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { auditContextOfCommand } from '../activity/record-activity.ts'
import { adjustStock } from '../catalogue/change-stock.ts'
import type { Pool } from '../db/pool.ts'
import { AppError, OperatorError } from '../errors.ts'
import { mergeLines } from '../orders/basket.ts'
import { moveOrder } from '../orders/move-orders.ts'
import { LockedRows } from '../orders/placing/locked-rows.ts'
import { createOrderBatcher } from '../orders/placing/order-batcher.ts'
import type { Tracking } from '../orders/tracking.ts'
import { newTraceparent } from '../traceparent.ts'
import type { DemoAccounts, DemoCustomer } from './demo-accounts.ts'
import type { Ending, PlannedMove } from './plan-order.ts'

export interface DemoShopOptions {
  pool: Pool
  accounts: DemoAccounts
  baseUrl: string
  logger: Logger
  /** The time of the orders. */
  now: () => Date
}

/** The customers and the operator of a demo. Their actions run the same code as the API's requests. */
export interface DemoShop {
  /** Returns null if the basket cannot be ordered, such as after an operator has archived a product. */
  place(): Promise<DemoOrder | null>
  /** Returns false if somebody else has already changed the order's status. */
  move(order: DemoOrder, to: PlannedMove['to'], ending: Ending): Promise<boolean>
}

export interface DemoOrder {
  id: string
  customer: DemoCustomer
}

const CHANNELS = ['web', 'app', 'marketplace'] as const
const DELIVERED_PIECES = 200
const MAX_PRODUCTS = 1_000

/** Throws OperatorError if there is nothing to sell. */
export async function openDemoShop({ pool, accounts, baseUrl, logger, now }: DemoShopOptions): Promise<DemoShop> {
  const products = await listProductIds(pool)
  const lockedRows = new LockedRows(pool)
  const limits = { maxQuantityPerProductAndUser: null, maxPendingOrdersPerUser: null }
  const batcher = createOrderBatcher({ pool, lockedRows, baseUrl, now, logger, cancellableStatuses: ['pending'], ...limits })
  const { customers, operatorId } = accounts

  const place = async () => {
    const customer = pick(customers)
    const basket = mergeLines(
      Array.from({ length: randomInt(1, 5) }, () => ({ product_id: pickPopular(products), quantity: randomInt(1, 3) })),
    )
    const request = {
      ...{ userId: customer.userId, basket, shippingAddress: customer.address, traceparent: newTraceparent() },
      ...{ currency: null, expectedTotal: null, clientReference: null, note: null, idempotencyKey: null, repeats: [] },
      ...{ billingAddress: null, vatNumber: null, attributes: { channel: pick(CHANNELS) } },
    }
    try {
      return { id: (await batcher.place(request)).orderId, customer }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      if (error.code === 'unknown_product') return null
      if (error.code !== 'insufficient_stock') throw error
      for (const { product_id } of (error.details.members?.shortages ?? []) as { product_id: string }[]) await restock(pool, product_id)
      return { id: (await batcher.place(request)).orderId, customer }
    }
  }

  return {
    place,
    async move({ id: orderId, customer }, to, ending) {
      const isByCustomer = ending === 'cancelled'
      const actor = isByCustomer ? ({ type: 'customer', id: customer.userId } as const) : ({ type: 'admin', id: operatorId } as const)
      const tracking = to === 'shipped' ? newTracking() : null
      const reason =
        to === 'returned' ? 'did not fit' : ending === 'shop_cancelled' && to === 'cancelled' ? 'damaged in the warehouse' : null
      const move = { orderId, to, actor, reason, tracking, restock: true }
      try {
        await moveOrder({ pool, lockedRows }, { ...move, traceparent: newTraceparent() }, now())
        return true
      } catch (error) {
        if (error instanceof AppError && error.code === 'illegal_transition') return false
        throw error
      }
    },
  }
}

/** Products of one currency, because an order has one; the first are the popular ones. */
async function listProductIds(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ id: string; price_currency: string }>(
    'select id, price_currency from products where archived_at is null order by id limit $1',
    [MAX_PRODUCTS],
  )
  if (rows[0] === undefined) throw new OperatorError('the catalogue is empty: storefront catalogue import FILE adds products')
  const { price_currency } = rows[0]
  return rows.filter((row) => row.price_currency === price_currency).map(({ id }) => id)
}

/** Adds stock, so a demo never runs out of products. */
async function restock(pool: Pool, productId: string): Promise<void> {
  const reference = `demo-${randomUUID()}`
  await adjustStock({ pool }, productId, {
    delta: DELIVERED_PIECES,
    reference,
    reason: 'delivery to the warehouse',
    auditContext: auditContextOfCommand('demo'),
  })
}

function newTracking(): Tracking {
  const number = `00340${randomInt(10 ** 11, 10 ** 12)}`
  return { carrier: 'Parcel Post', number, url: `https://parcels.example/track/${number}` }
}

function pick<T>(from: readonly T[]): T {
  return from[randomInt(from.length)] as T
}

/** The first are picked most. */
function pickPopular(from: readonly string[]): string {
  return from[Math.floor(Math.random() ** 2 * from.length)] as string
}

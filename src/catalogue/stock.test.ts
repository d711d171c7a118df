import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { addProduct } from '../../test/store.ts'
import type { Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { lockStock, moveStock, type Shortage, type StockLine, saveStock } from './stock.ts'

const { pool } = await createTestDatabase({ after })

/** Takes stock like an order does: all lines, or none if one of them is short. */
async function takeLocked(tx: Transaction, lines: StockLine[]): Promise<Shortage[]> {
  const stock = await lockStock(
    tx,
    lines.map((line) => line.product_id),
  )
  const shortages = stock.shortagesOf(lines, 'exact')
  if (shortages.length > 0) return shortages
  stock.take(lines)
  await saveStock(tx, stock)
  return []
}

const take = (...lines: StockLine[]): Promise<Shortage[]> => inTransaction(pool, (tx) => takeLocked(tx, lines))
const giveBack = (...lines: StockLine[]): Promise<void> => inTransaction(pool, (tx) => moveStock(tx, { restocked: lines }))
const line = (product: { id: string }, quantity: number): StockLine => ({ product_id: product.id, quantity })

/**
 * Stock, what the catalogue says of it, and the row version of the product, which changes whenever the row is
 * written.
 */
async function read(product: { id: string }): Promise<{ available: number | null; in_stock: boolean; row_version: string }> {
  const { rows } = await pool.query(
    `select available, in_stock, products.xmin::text as row_version
    from products
    join inventory on product_id = id
    where id = $1`,
    [product.id],
  )
  return rows[0]
}

test('takes stock without writing to the catalogue', async () => {
  const [lamp, vase] = [await addProduct(pool, { stock: 5 }), await addProduct(pool, { stock: 7 })]
  const before = await read(lamp)
  assert.deepEqual(await take(line(lamp, 2), line(vase, 1)), [])
  assert.deepEqual(await read(lamp), { ...before, available: 3 })
  assert.equal((await read(vase)).available, 6)
})

test('names every short line, and takes nothing for the other lines either', async () => {
  const [plenty, few, none] = [await addProduct(pool), await addProduct(pool, { stock: 2 }), await addProduct(pool, { stock: 0 })]
  const unknown = randomUUID()
  assert.deepEqual(await take(line(few, 3), line(plenty, 1), line(none, 1), line({ id: unknown }, 4)), [
    { product_id: few.id, requested: 3, available: 2 },
    { product_id: none.id, requested: 1, available: 0 },
    { product_id: unknown, requested: 4, available: 0 },
  ])
  assert.deepEqual(await Promise.all([plenty, few, none].map(async (product) => (await read(product)).available)), [100, 2, 0])
})

test('shows a product as sold out after the last unit, and as in stock when a unit is returned', async () => {
  const lamp = await addProduct(pool, { stock: 3 })
  await take(line(lamp, 3))
  const soldOut = await read(lamp)
  assert.deepEqual([soldOut.available, soldOut.in_stock], [0, false])
  await giveBack(line(lamp, 1))
  const back = await read(lamp)
  assert.deepEqual([back.available, back.in_stock], [1, true])
  await giveBack(line(lamp, 2))
  assert.deepEqual(await read(lamp), { ...back, available: 3 }, 'the second return does not write the catalogue')
})

test('selling the last unit changes updated_at, so that caches renew the page', async () => {
  const lamp = await addProduct(pool, { stock: 1 })
  await pool.query(`update products set updated_at = '2020-01-01T00:00:00Z' where id = $1`, [lamp.id])
  await take(line(lamp, 1))
  const { rows } = await pool.query("select updated_at > now() - interval '1 minute' as is_new from products where id = $1", [lamp.id])
  assert.deepEqual(rows, [{ is_new: true }])
})

test('a product without stock tracking is never sold out', async () => {
  const download = await addProduct(pool, { stock: null })
  const before = await read(download)
  assert.deepEqual(await take(line(download, 10_000)), [])
  await giveBack(line(download, 10_000))
  assert.deepEqual(await read(download), before)
})

test('returning units of a deleted product does nothing', async () => {
  const lamp = await addProduct(pool, { stock: 1 })
  await giveBack(line({ id: randomUUID() }, 5), line(lamp, 1))
  assert.equal((await read(lamp)).available, 2)
})

test('sells the last ten units to exactly ten of fifty concurrent buyers', async () => {
  const lamp = await addProduct(pool, { stock: 10 })
  const outcomes = await Promise.all(Array.from({ length: 50 }, () => take(line(lamp, 1))))
  assert.equal(outcomes.filter((shortages) => shortages.length === 0).length, 10)
  for (const [shortage] of outcomes.filter((shortages) => shortages.length > 0)) assert.equal(shortage?.available, 0)
  const { available, in_stock } = await read(lamp)
  assert.deepEqual({ available, in_stock }, { available: 0, in_stock: false })
})

test('concurrent orders with the same lines in another order cause no deadlock', async () => {
  const products = await Promise.all(Array.from({ length: 20 }, () => addProduct(pool, { stock: 1_000 })))
  const lines = products.map((product) => line(product, 1))
  let attempts = 0
  const counting =
    (move: (tx: Transaction, lines: StockLine[]) => Promise<unknown>) =>
    (mine: StockLine[]): Promise<unknown> =>
      inTransaction(pool, async (tx) => {
        attempts++
        await move(tx, mine)
      })
  const giveBackLines = counting((tx, restocked) => moveStock(tx, { restocked }))
  const moves = [counting(takeLocked), giveBackLines]
  const orders = Array.from({ length: 80 }, (_, i) => [i % 8 < 4 ? lines : lines.toReversed(), moves[i % 2] ?? giveBackLines] as const)
  await Promise.all(orders.map(([mine, move]) => move(mine)))
  assert.equal(attempts, orders.length, 'no deadlock')
  for (const product of products) assert.equal((await read(product)).available, 1_000)
})

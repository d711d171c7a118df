import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { createTestDatabase, findWaiting } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { addProduct } from '../../test/store.ts'
import { isUnmet } from '../db/insist.ts'
import { createPool, type Transaction } from '../db/pool.ts'
import { inPipelinedTransaction, inTransaction } from '../db/transaction.ts'
import { PriceList } from './products.ts'
import { isSoldOut, lockStock, returnStock, type Shortage, type StockLine, saveStock, takeStock } from './stock.ts'

const { pool, url } = await createTestDatabase({ after })
const pipelined = createPool({ url, size: 4, applicationName: 'test', onError() {}, isPipelined: true })
after(() => pipelined.end())

/** As an order does: all of it or, when any line is short, none. */
async function takeLocked(tx: Transaction, lines: StockLine[]): Promise<Shortage[]> {
  const stock = await lockStock(
    tx,
    lines.map((line) => line.product_id),
  )
  const shortages = stock.shortagesOf(lines)
  if (shortages.length > 0) return shortages
  stock.take(lines)
  await saveStock(tx, stock)
  return []
}

const take = (...lines: StockLine[]): Promise<Shortage[]> => inTransaction(pool, (tx) => takeLocked(tx, lines))
const giveBack = (...lines: StockLine[]): Promise<void> => inTransaction(pool, (tx) => returnStock(tx, lines))
const line = (product: { id: string }, quantity: number): StockLine => ({ product_id: product.id, quantity })

/** Stock, what the catalogue says of it, and the row version of the product, which changes whenever the row is written. */
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

test('takes stock without writing the catalogue', async () => {
  const [lamp, vase] = [await addProduct(pool, { stock: 5 }), await addProduct(pool, { stock: 7 })]
  const before = await read(lamp)
  assert.deepEqual(await take(line(lamp, 2), line(vase, 1)), [])
  assert.deepEqual(await read(lamp), { ...before, available: 3 })
  assert.equal((await read(vase)).available, 6)
})

test('names every short line and takes nothing, not even for the other lines', async () => {
  const [plenty, few, none] = [await addProduct(pool), await addProduct(pool, { stock: 2 }), await addProduct(pool, { stock: 0 })]
  const unknown = randomUUID()
  assert.deepEqual(await take(line(few, 3), line(plenty, 1), line(none, 1), line({ id: unknown }, 4)), [
    { product_id: few.id, requested: 3, available: 2 },
    { product_id: none.id, requested: 1, available: 0 },
    { product_id: unknown, requested: 4, available: 0 },
  ])
  assert.deepEqual(await Promise.all([plenty, few, none].map(async (product) => (await read(product)).available)), [100, 2, 0])
})

test('shows a product as sold out with the last piece, and as in stock when one is returned', async () => {
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

test('changes updated_at of a product that is sold out, so that caches renew it', async () => {
  const lamp = await addProduct(pool, { stock: 1 })
  await pool.query(`update products set updated_at = '2020-01-01T00:00:00Z' where id = $1`, [lamp.id])
  await take(line(lamp, 1))
  const { rows } = await pool.query("select updated_at > now() - interval '1 minute' as is_new from products where id = $1", [lamp.id])
  assert.deepEqual(rows, [{ is_new: true }])
})

test('never runs out of a product whose stock is not tracked', async () => {
  const download = await addProduct(pool, { stock: null })
  const before = await read(download)
  assert.deepEqual(await take(line(download, 10_000)), [])
  await giveBack(line(download, 10_000))
  assert.deepEqual(await read(download), before)
})

test('returns nothing for a deleted product', async () => {
  const lamp = await addProduct(pool, { stock: 1 })
  await giveBack(line({ id: randomUUID() }, 5), line(lamp, 1))
  assert.equal((await read(lamp)).available, 2)
})

test('sells the last ten pieces to exactly ten of fifty concurrent buyers', async () => {
  const lamp = await addProduct(pool, { stock: 10 })
  const outcomes = await Promise.all(Array.from({ length: 50 }, () => take(line(lamp, 1))))
  assert.equal(outcomes.filter((shortages) => shortages.length === 0).length, 10)
  for (const [shortage] of outcomes.filter((shortages) => shortages.length > 0)) assert.equal(shortage?.available, 0)
  const { available, in_stock } = await read(lamp)
  assert.deepEqual({ available, in_stock }, { available: 0, in_stock: false })
})

test('lines in another order cause no deadlock', async () => {
  const products = await Promise.all(Array.from({ length: 20 }, () => addProduct(pool, { stock: 1_000 })))
  const lines = products.map((product) => line(product, 1))
  const { version } = await new PriceList().read(pool, [products[0]?.id ?? ''])
  let attempts = 0
  const counting =
    (move: (tx: Transaction, lines: StockLine[]) => Promise<unknown>) =>
    (mine: StockLine[]): Promise<unknown> =>
      inTransaction(pool, async (tx) => {
        attempts++
        await move(tx, mine)
      })
  const giveBackLines = counting(returnStock)
  const takeUnlooked = (mine: StockLine[]) => takeUnseen(version, mine, () => attempts++)
  const moves = [counting(takeLocked), giveBackLines, takeUnlooked, giveBackLines]
  const orders = Array.from({ length: 80 }, (_, i) => [i % 8 < 4 ? lines : lines.toReversed(), moves[i % 4] ?? giveBackLines] as const)
  await Promise.all(orders.map(([mine, move]) => move(mine)))
  assert.equal(attempts, orders.length, 'no deadlock')
  for (const product of products) assert.equal((await read(product)).available, 1_000)
})

/** As an order does that has not looked. */
async function takeUnseen(version: string, lines: StockLine[], onTry = () => {}): Promise<void> {
  const quantities = new Map(lines.map(({ product_id, quantity }) => [product_id, quantity]))
  await inPipelinedTransaction(pipelined, async (tx) => {
    onTry()
    return { statements: [takeStock(tx, quantities, version)], result() {} }
  })
}

test('takes unread stock while some is left', async () => {
  const [lamp, untracked] = [await addProduct(pool, { stock: 5 }), await addProduct(pool, { stock: null })]
  const { version } = await new PriceList().read(pool, [lamp.id])
  const before = await read(untracked)
  await takeUnseen(version, [line(lamp, 4), line(untracked, 9)])
  assert.equal((await read(lamp)).available, 1)
  assert.deepEqual(await read(untracked), before)
})

test('takes no unread stock when none would be left, or too little is available', async () => {
  const [plenty, few] = [await addProduct(pool, { stock: 50 }), await addProduct(pool, { stock: 2 })]
  const { version } = await new PriceList().read(pool, [few.id])
  await assert.rejects(takeUnseen(version, [line(plenty, 1), line(few, 2)]), isUnmet)
  await assert.rejects(takeUnseen(version, [line(plenty, 1), line(few, 3)]), isSoldOut)
  assert.deepEqual([(await read(plenty)).available, (await read(few)).available], [50, 2])
})

test('takes nothing after a change of the catalogue, also one that was committed while it waited for the stock', async (t) => {
  const lamp = await addProduct(pool, { stock: 5 })
  const { version } = await new PriceList().read(pool, [lamp.id])
  const importing = await pool.connect()
  t.after(() => importing.release(true))
  await importing.query('begin')
  await importing.query('update inventory set available = 9 where product_id = $1', [lamp.id])
  await importing.query('update products set price_amount = price_amount + 1 where id = $1', [lamp.id])
  const refused = assert.rejects(takeUnseen(version, [line(lamp, 1)]), isUnmet)
  await eventually(async () => (await findWaiting(pool, importing)).length === 1)
  await importing.query('commit')
  await refused
  assert.equal((await read(lamp)).available, 9)
})

import { randomUUIDv7 } from 'node:crypto'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import type { ImportedProduct, ImportLine } from './imported-product.ts'

/** How many lines did what. A product is unchanged when neither it nor its stock differs from the file. */
export interface ImportResult {
  created: number
  updated: number
  unchanged: number
  failed: number
}

interface NumberedProduct {
  line: number
  product: ImportedProduct
}
type Upserted = Omit<ImportResult, 'failed'>

const BATCH_SIZE = 1_000
// SQLSTATE classes of which a row is the cause. Anything else (the server is away, the disk is full) ends the import.
const ROW_FAULTS = new Set(['21', '22', '23', '54'])

/**
 * Makes or updates the product of every line, by its sku; a file's stock replaces the store's. `onError` hears of every line that
 * failed. Each batch is one transaction: an import that is cut off keeps the batches before, and running it again is safe.
 */
export async function importCatalogue(
  pool: Pool,
  lines: AsyncIterable<ImportLine>,
  onError: (line: number, reason: string) => void,
  options: { batchSize?: number } = {},
): Promise<ImportResult> {
  const result: ImportResult = { created: 0, updated: 0, unchanged: 0, failed: 0 }
  const fail = (line: number, reason: string) => {
    result.failed++
    onError(line, reason)
  }
  const store = async (batch: readonly NumberedProduct[]) => {
    const upserted = await storeBatch(pool, batch, fail)
    result.created += upserted.created
    result.updated += upserted.updated
    result.unchanged += upserted.unchanged
  }
  let batch: NumberedProduct[] = []
  for await (const read of lines) {
    if ('error' in read) {
      fail(read.line, read.error)
      continue
    }
    batch.push(read)
    if (batch.length < (options.batchSize ?? BATCH_SIZE)) continue
    await store(batch)
    batch = []
  }
  if (batch.length > 0) await store(batch)
  return result
}

async function storeBatch(pool: Pool, batch: readonly NumberedProduct[], fail: (line: number, reason: string) => void): Promise<Upserted> {
  const total: Upserted = { created: 0, updated: 0, unchanged: 0 }
  const add = async (products: readonly ImportedProduct[]) => {
    const { created, updated, unchanged } = await inTransaction(pool, (tx) => upsertProducts(tx, products))
    total.created += created
    total.updated += updated
    total.unchanged += unchanged
  }
  try {
    await add(batch.map(({ product }) => product))
  } catch (error) {
    if (rowFault(error) === null) throw error
    // One row of the batch is at fault: alone, the others go in and the one is found.
    for (const { line, product } of batch) {
      try {
        await add([product])
      } catch (rowError) {
        const reason = rowFault(rowError)
        if (reason === null) throw rowError
        fail(line, reason)
      }
    }
  }
  return total
}

function rowFault(error: unknown): string | null {
  const { code = '', constraint } = error as { code?: string; constraint?: string }
  if (!ROW_FAULTS.has(code.slice(0, 2))) return null
  return `the database refused the product (SQLSTATE ${code}${constraint === undefined ? '' : `, ${constraint}`})`
}

/**
 * Makes or updates products of different skus, and their stock. A row that is as it should be is not written, so `updated_at`
 * tells of real changes only.
 */
export async function upsertProducts(tx: Transaction, products: readonly ImportedProduct[]): Promise<Upserted> {
  const rows = products.map((product) => ({ id: randomUUIDv7(), ...product }))
  await lockInventory(tx, rows)
  const written = await writeProducts(tx, rows)
  const restocked = await writeInventory(tx, rows)
  const made = new Set<string>(rows.map(({ id }) => id))
  const touched = new Set([...written, ...restocked])
  const created = [...touched].filter((id) => made.has(id)).length
  return { created, updated: touched.size - created, unchanged: rows.length - touched.size }
}

type Row = ImportedProduct & { id: string }

/** Locks stock in product-id order, and before the products, as orders do: an import and an order cannot deadlock. */
async function lockInventory(tx: Transaction, rows: readonly Row[]): Promise<void> {
  await tx.query(
    `select inventory.product_id
     from inventory
     join products on products.id = inventory.product_id
     where products.sku = any ($1::text[])
     order by inventory.product_id
     for update of inventory`,
    [rows.map(({ sku }) => sku)],
  )
}

/** Returns the ids of the products it made or changed; one it made has the id of its row. */
async function writeProducts(tx: Transaction, rows: readonly Row[]): Promise<string[]> {
  // The join leaves unchanged products alone, which `on conflict` would lock and so write. Ordered by sku, so that two imports that
  // make the same products wait for each other in one direction; the loser of that race updates what the winner made.
  const { rows: written } = await tx.query<{ id: string }>(
    `insert into products (id, sku, name, description, category, image_url, price_amount, price_currency, in_stock)
     select input.id, input.sku, input.name, input.description, input.category, input.image_url, input.price_amount,
       input.price_currency, input.stock is null or input.stock > 0
     from unnest(
       $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::bigint[]
     ) as input (id, sku, name, description, category, image_url, price_amount, price_currency, stock)
     left join products as present on present.sku = input.sku
     where present.id is null
       or (present.name, present.description, present.category, present.image_url, present.price_amount, present.price_currency,
         present.in_stock)
       is distinct from (input.name, input.description, input.category, input.image_url, input.price_amount, input.price_currency,
         input.stock is null or input.stock > 0)
     order by input.sku
     on conflict (sku) do update set
       name = excluded.name,
       description = excluded.description,
       category = excluded.category,
       image_url = excluded.image_url,
       price_amount = excluded.price_amount,
       price_currency = excluded.price_currency,
       in_stock = excluded.in_stock,
       updated_at = now()
     where (products.name, products.description, products.category, products.image_url, products.price_amount,
       products.price_currency, products.in_stock)
       is distinct from (excluded.name, excluded.description, excluded.category, excluded.image_url, excluded.price_amount,
       excluded.price_currency, excluded.in_stock)
     returning id`,
    [
      rows.map(({ id }) => id),
      rows.map(({ sku }) => sku),
      rows.map(({ name }) => name),
      rows.map(({ description }) => description),
      rows.map(({ category }) => category),
      rows.map(({ image_url }) => image_url),
      rows.map(({ price }) => price.amount),
      rows.map(({ price }) => price.currency),
      rows.map(({ stock }) => stock),
    ],
  )
  return written.map(({ id }) => id)
}

/** Returns the ids of the products whose stock it made or changed. */
async function writeInventory(tx: Transaction, rows: readonly Row[]): Promise<string[]> {
  const { rows: written } = await tx.query<{ product_id: string }>(
    `insert into inventory (product_id, available)
     select products.id, input.available
     from unnest($1::text[], $2::bigint[]) as input (sku, available)
     join products on products.sku = input.sku
     left join inventory as present on present.product_id = products.id
     where present.product_id is null or present.available is distinct from input.available
     order by products.id
     on conflict (product_id) do update set
       available = excluded.available
     where inventory.available is distinct from excluded.available
     returning product_id`,
    [rows.map(({ sku }) => sku), rows.map(({ stock }) => stock)],
  )
  return written.map(({ product_id }) => product_id)
}

import { randomUUIDv7 } from 'node:crypto'
import { copyRows } from '../db/copy-rows.ts'
import type { Transaction } from '../db/pool.ts'
import type { ImportedProduct } from './imported-product.ts'

/** What became of a product. It is unchanged when neither it nor its stock differs from what the store has. */
export type Outcome = 'created' | 'updated' | 'unchanged'

/** Past this many rows their number matters to the planner, which knows nothing of a fresh temporary table. */
const ANALYZE_FROM = 200

/**
 * Makes or updates products of different skus, and their stock; an archived one is sold again. Tells what became of each, in
 * their order. A row that is as it should be is not written, so `updated_at` tells of real changes only.
 */
export async function upsertProducts(tx: Transaction, products: readonly ImportedProduct[]): Promise<Outcome[]> {
  const rows = products.map((product) => ({ id: randomUUIDv7(), ...product }))
  await stage(tx, rows)
  await lockInventory(tx)
  const written = await writeProducts(tx)
  const restocked = await writeInventory(tx)
  const touched = new Set([...written, ...restocked])
  const made = new Set(written.filter((sku) => sku.startsWith(MADE)).map((sku) => sku.slice(MADE.length)))
  return rows.map(({ sku }) => (made.has(sku) ? 'created' : touched.has(sku) ? 'updated' : 'unchanged'))
}

type Row = ImportedProduct & { id: string }

/** Puts the rows into a temporary table that is empty again after the transaction. */
async function stage(tx: Transaction, rows: readonly Row[]): Promise<void> {
  await tx.query(
    `create temporary table if not exists import_rows (
      id uuid not null,
      sku text not null,
      name text not null,
      description text not null,
      category text not null,
      image_url text,
      variant_group text,
      options jsonb not null,
      price_amount bigint not null,
      price_currency text not null,
      stock bigint
    ) on commit delete rows`,
  )
  await copyRows(
    tx,
    `copy import_rows (id, sku, name, description, category, image_url, variant_group, options, price_amount, price_currency, stock)
     from stdin`,
    rows
      .values()
      .map((row) => [
        ...[row.id, row.sku, row.name, row.description, row.category, row.image_url, row.group, JSON.stringify(row.options)],
        ...[row.price.amount, row.price.currency, row.stock],
      ]),
  )
  if (rows.length >= ANALYZE_FROM) await tx.query('analyze import_rows')
}

/** Locks stock in product-id order, and before the products, as orders do: an import and an order cannot deadlock. */
async function lockInventory(tx: Transaction): Promise<void> {
  await tx.query(
    `select inventory.product_id
     from import_rows as input
     join products on products.sku = input.sku
     join inventory on inventory.product_id = products.id
     order by inventory.product_id
     for update of inventory`,
  )
}

// No sku has a control character.
const MADE = '\t'

/** Returns the skus of the products it made, with MADE in front, and of those it changed. */
async function writeProducts(tx: Transaction): Promise<string[]> {
  // The join leaves unchanged products alone, which `on conflict` would lock and so write. Ordered by sku, so that two imports that
  // make the same products wait for each other in one direction; the loser of that race updates what the winner made.
  const { rows } = await tx.query<{ sku: string }>(
    `with written as (
       insert into products as stored
         (id, sku, name, description, category, image_url, variant_group, options, price_amount, price_currency, in_stock)
       select input.id, input.sku, input.name, input.description, input.category, input.image_url, input.variant_group, input.options,
         input.price_amount, input.price_currency, input.stock is null or input.stock > 0
       from import_rows as input
       left join products as present on present.sku = input.sku
       where present.id is null
         or present.archived_at is not null
         or (present.name, present.description, present.category, present.image_url, present.variant_group, present.options,
           present.price_amount, present.price_currency, present.in_stock)
         is distinct from (input.name, input.description, input.category, input.image_url, input.variant_group, input.options,
           input.price_amount, input.price_currency, input.stock is null or input.stock > 0)
       order by input.sku
       on conflict (sku) do update set
         name = excluded.name,
         description = excluded.description,
         category = excluded.category,
         image_url = excluded.image_url,
         variant_group = excluded.variant_group,
         options = excluded.options,
         price_amount = excluded.price_amount,
         price_currency = excluded.price_currency,
         in_stock = excluded.in_stock,
         archived_at = null,
         updated_at = now()
       where stored.archived_at is not null
         or (stored.name, stored.description, stored.category, stored.image_url, stored.variant_group, stored.options,
           stored.price_amount, stored.price_currency, stored.in_stock)
         is distinct from (excluded.name, excluded.description, excluded.category, excluded.image_url, excluded.variant_group,
           excluded.options, excluded.price_amount, excluded.price_currency, excluded.in_stock)
       returning stored.id, stored.sku
     )
     select case when input.id is null then '' else '${MADE}' end || written.sku as sku
     from written
     left join import_rows as input on input.id = written.id`,
  )
  return rows.map(({ sku }) => sku)
}

/** Returns the skus of the products whose stock it made or changed. */
async function writeInventory(tx: Transaction): Promise<string[]> {
  const { rows } = await tx.query<{ sku: string }>(
    `with written as (
       insert into inventory (product_id, available)
       select products.id, input.stock
       from import_rows as input
       join products on products.sku = input.sku
       left join inventory as present on present.product_id = products.id
       where present.product_id is null or present.available is distinct from input.stock
       order by products.id
       on conflict (product_id) do update set
         available = excluded.available
       where inventory.available is distinct from excluded.available
       returning product_id
     )
     select products.sku
     from written
     join products on products.id = written.product_id`,
  )
  return rows.map(({ sku }) => sku)
}

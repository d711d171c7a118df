import { copyRows } from '../../db/copy-rows.ts'
import type { Transaction } from '../../db/pool.ts'
import { toStoredPrices } from '../offered-prices.ts'
import { type Image, storedImages } from '../product-details.ts'
import type { ImportedProduct } from './imported-product.ts'

/** From this number of rows the planner needs statistics, which a new temporary table lacks. */
const ANALYZE_FROM = 200

/** A stored line of a file. */
export interface StagedProduct
  extends Omit<ImportedProduct, 'slug' | 'category' | 'categories' | 'stock' | 'stock_delta' | 'reference' | 'columns'> {
  id: string
  slug: string | null
  category: string
  /** Is null when the file names only the first one, by its name. */
  categoryIds: readonly string[] | null
  /** Version of the locked stock; 0 for a new product. */
  stockVersion: number
  before: number | null
  after: number | null
  reference: string | null
}

/** Copies the rows into a temporary table, which the next call and the end of the transaction empty. */
export async function stageProducts(tx: Transaction, rows: readonly StagedProduct[]): Promise<void> {
  await tx.query(
    `create temporary table if not exists import_rows (
      id uuid not null,
      sku text not null,
      name text not null,
      description text not null,
      category text not null,
      -- Null: those after the first one stay.
      category_ids uuid[],
      image_url text,
      variant_group text,
      options jsonb not null,
      attributes jsonb not null,
      price_amount bigint not null,
      price_currency text not null,
      slug text,
      brand text,
      compare_at_amount bigint,
      -- Null for what image_url has already.
      images jsonb,
      seo_title text,
      seo_description text,
      availability_text text,
      -- Null: they stay.
      translations jsonb,
      prices jsonb,
      -- Version (0 for a new product) and number of the locked stock, and the number it will be.
      stock_version bigint not null,
      stock_before bigint,
      stock bigint,
      reference text
    ) on commit delete rows;
    delete from import_rows`,
  )
  await copyRows(
    tx,
    `copy import_rows (id, sku, name, description, category, category_ids, image_url, variant_group, options, attributes, price_amount,
       price_currency, slug, brand, compare_at_amount, images, seo_title, seo_description, availability_text, translations, prices,
       stock_version, stock_before, stock, reference)
     from stdin`,
    rows
      .values()
      .map((row) => [
        ...[
          row.id,
          row.sku,
          row.name,
          row.description,
          row.category,
          idsCell(row.categoryIds),
          row.image_url,
          row.group,
          JSON.stringify(row.options),
        ],
        ...[
          JSON.stringify(row.attributes),
          row.price.amount,
          row.price.currency,
          row.slug,
          row.brand,
          row.compare_at_price?.amount ?? null,
        ],
        ...[imagesCell(row.images), row.seo.title, row.seo.description, row.availability_text],
        row.translations === undefined ? null : JSON.stringify(row.translations),
        row.prices === undefined ? null : JSON.stringify(toStoredPrices(row.prices)),
        ...[row.stockVersion, row.before, row.after, row.reference],
      ]),
  )
  if (rows.length >= ANALYZE_FROM) await tx.query('analyze import_rows')
}

function idsCell(ids: readonly string[] | null): string | null {
  return ids === null ? null : `{${ids.join()}}`
}

function imagesCell(images: readonly Image[]): string | null {
  const stored = storedImages(images)
  return stored === null ? null : JSON.stringify(stored)
}

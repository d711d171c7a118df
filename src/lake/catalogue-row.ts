import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { isCurrency, minorDigits } from '../currency.ts'
import { type Sql, sql } from '../db/sql.ts'
import type { TopicMessage } from '../topic/topic.ts'

/**
 * Columns of the files of the catalogue, by DuckDB type. Amounts are minor units of `currency`. A product event
 * fills every column except the stock levels, a price event the amounts, a stock event the levels. Columns are only added.
 */
export const CATALOGUE_COLUMNS = {
  sequence: sql`BIGINT`,
  event_id: sql`VARCHAR`,
  event_type: sql`VARCHAR`,
  event_time: sql`TIMESTAMPTZ`,
  product_id: sql`VARCHAR`,
  version: sql`BIGINT`,
  sku: sql`VARCHAR`,
  slug: sql`VARCHAR`,
  name: sql`VARCHAR`,
  description: sql`VARCHAR`,
  category: sql`VARCHAR`,
  brand: sql`VARCHAR`,
  variant_group: sql`VARCHAR`,
  /** JSON, as the next one. */
  options: sql`VARCHAR`,
  attributes: sql`VARCHAR`,
  currency: sql`VARCHAR`,
  currency_exponent: sql`INTEGER`,
  price_amount: sql`BIGINT`,
  compare_at_amount: sql`BIGINT`,
  previous_price_amount: sql`BIGINT`,
  previous_compare_at_amount: sql`BIGINT`,
  image_url: sql`VARCHAR`,
  created_at: sql`TIMESTAMPTZ`,
  archived_at: sql`TIMESTAMPTZ`,
  available: sql`BIGINT`,
  previous_available: sql`BIGINT`,
  /** JSON: the whole product, also what has no column. */
  product: sql`VARCHAR`,
  ingested_at: sql`TIMESTAMPTZ`,
} as const satisfies Readonly<Record<string, Sql>>

/** The row of an event. What the lake cannot store is null: `findCatalogueEventDefect` checks only what subscribers need. Pure. */
export function toCatalogueRow(
  { sequence, event }: TopicMessage<CatalogueEvent>,
  ingestedAt: string,
): Record<keyof typeof CATALOGUE_COLUMNS, unknown> {
  const data = event.data as object as Record<string, unknown>
  const product = isObject(data.product) ? data.product : null
  const { price, compare_at_price } = product ?? data
  const money = price ?? data.previous_price
  const currency = isObject(money) ? toText(money.currency) : null
  return {
    sequence,
    event_id: event.id,
    event_type: event.type,
    event_time: event.time,
    product_id: event.subject,
    version: Number(event.sequence),
    sku: toText((product ?? data).sku),
    slug: toText(product?.slug),
    name: toText(product?.name),
    description: toText(product?.description),
    category: toText(product?.category),
    brand: toText(product?.brand),
    variant_group: toText(product?.group),
    options: toJson(product?.options),
    attributes: toJson(product?.attributes),
    currency,
    currency_exponent: currency !== null && isCurrency(currency) ? minorDigits(currency) : null,
    price_amount: amountOf(price),
    compare_at_amount: amountOf(compare_at_price),
    previous_price_amount: amountOf(data.previous_price),
    previous_compare_at_amount: amountOf(data.previous_compare_at_price),
    image_url: toText(product?.image_url),
    created_at: toText(product?.created_at),
    archived_at: toText(product?.archived_at),
    available: toWhole(data.available),
    previous_available: toWhole(data.previous_available),
    product: toJson(product),
    ingested_at: ingestedAt,
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** A lone surrogate has no UTF-8 and would make every flush fail. */
function toText(value: unknown): string | null {
  return typeof value === 'string' ? value.toWellFormed() : null
}

/** As JSON. Its escape of a lone surrogate would make DuckDB refuse the text. */
function toJson(value: unknown): string | null {
  return isObject(value) ? JSON.stringify(value).replaceAll(LONE_SURROGATE, '$1\\ufffd') : null
}

/** As `JSON.stringify` escapes it, after an even number of backslashes. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g

function amountOf(money: unknown): number | null {
  return isObject(money) ? toWhole(money.amount) : null
}

function toWhole(value: unknown): number | null {
  return Number.isSafeInteger(value) ? Number(value) : null
}

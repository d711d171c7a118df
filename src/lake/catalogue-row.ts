import { isCurrency, minorDigits } from '../../client/src/currency.ts'
import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import type { TopicMessage } from '../topic/topic.ts'
import { BIGINT, INTEGER, type LakeColumn, rowMaker, TIMESTAMPTZ, toText, typesOf, VARCHAR } from './lake-columns.ts'

interface Source {
  sequence: number
  event: CatalogueEvent
  data: Record<string, unknown>
  product: Record<string, unknown> | null
  priced: Record<string, unknown>
  currency: string | null
  ingestedAt: string
}

/** Amounts are minor units of `currency`. Columns may be added, never removed. */
export const CATALOGUE_EVENT_COLUMNS = {
  sequence: { id: 1, type: BIGINT, value: ({ sequence }) => sequence },
  event_id: { id: 2, type: VARCHAR, value: ({ event }) => event.id },
  event_type: { id: 3, type: VARCHAR, value: ({ event }) => event.type },
  event_time: { id: 4, type: TIMESTAMPTZ, value: ({ event }) => event.time },
  product_id: { id: 47, type: VARCHAR, value: ({ event }) => event.subject },
  version: { id: 7, type: BIGINT, value: ({ event }) => Number(event.sequence) },
  sku: { id: 48, type: VARCHAR, value: ({ product, data }) => toText((product ?? data).sku) },
  slug: { id: 57, type: VARCHAR, value: ({ product }) => toText(product?.slug) },
  name: { id: 49, type: VARCHAR, value: ({ product }) => toText(product?.name) },
  description: { id: 58, type: VARCHAR, value: ({ product }) => toText(product?.description) },
  category: { id: 52, type: VARCHAR, value: ({ product }) => toText(product?.category) },
  brand: { id: 59, type: VARCHAR, value: ({ product }) => toText(product?.brand) },
  variant_group: { id: 60, type: VARCHAR, value: ({ product }) => toText(product?.group) },
  options: { id: 61, type: VARCHAR, value: ({ product }) => toJson(product?.options) },
  attributes: { id: 24, type: VARCHAR, value: ({ product }) => toJson(product?.attributes) },
  currency: { id: 11, type: VARCHAR, value: ({ currency }) => currency },
  currency_exponent: {
    id: 12,
    type: INTEGER,
    value: ({ currency }) => (currency !== null && isCurrency(currency) ? minorDigits(currency) : null),
  },
  price_amount: { id: 62, type: BIGINT, value: ({ priced }) => amountOf(priced.price) },
  compare_at_amount: { id: 63, type: BIGINT, value: ({ priced }) => amountOf(priced.compare_at_price) },
  previous_price_amount: { id: 64, type: BIGINT, value: ({ data }) => amountOf(data.previous_price) },
  previous_compare_at_amount: { id: 65, type: BIGINT, value: ({ data }) => amountOf(data.previous_compare_at_price) },
  image_url: { id: 66, type: VARCHAR, value: ({ product }) => toText(product?.image_url) },
  created_at: { id: 22, type: TIMESTAMPTZ, value: ({ product }) => toText(product?.created_at) },
  archived_at: { id: 67, type: TIMESTAMPTZ, value: ({ product }) => toText(product?.archived_at) },
  available: { id: 68, type: BIGINT, value: ({ data }) => toWhole(data.available) },
  previous_available: { id: 69, type: BIGINT, value: ({ data }) => toWhole(data.previous_available) },
  product: { id: 70, type: VARCHAR, value: ({ product }) => toJson(product) },
  ingested_at: { id: 31, type: TIMESTAMPTZ, value: ({ ingestedAt }) => ingestedAt },
} as const satisfies Readonly<Record<string, LakeColumn<Source>>>

export const CATALOGUE_COLUMNS = typesOf(CATALOGUE_EVENT_COLUMNS)

const toRow = rowMaker<Source, keyof typeof CATALOGUE_EVENT_COLUMNS>(CATALOGUE_EVENT_COLUMNS)

/** Values that the lake cannot store are null: `findCatalogueEventDefect` checks only what subscribers need. */
export function toCatalogueRow({ sequence, event }: TopicMessage<CatalogueEvent>, ingestedAt: string) {
  const data = event.data as object as Record<string, unknown>
  const product = isObject(data.product) ? data.product : null
  const priced = product ?? data
  const money = priced.price ?? data.previous_price
  const currency = isObject(money) ? toText(money.currency) : null
  return toRow({ sequence, event, data, product, priced, currency, ingestedAt })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** DuckDB refuses text with JSON's escape of a lone surrogate. */
function toJson(value: unknown): string | null {
  return isObject(value) ? JSON.stringify(value).replaceAll(LONE_SURROGATE, '$1\\ufffd') : null
}

/** A lone surrogate in the escape of `JSON.stringify`, after an even number of backslashes. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g

function amountOf(money: unknown): number | null {
  return isObject(money) ? toWhole(money.amount) : null
}

function toWhole(value: unknown): number | null {
  return Number.isSafeInteger(value) ? Number(value) : null
}

import { randomUUID } from 'node:crypto'
import type { CatalogueEvent, CatalogueEventData, CatalogueEventType } from '../src/catalogue/catalogue-event.ts'
import type { TopicMessage } from '../src/topic/topic.ts'

interface OtherPrice {
  amount: number
  currency: string
  compare_at: number | null
}

/** A product as an event has it, and its events in order of version: the factory counts the versions. */
export class CatalogueHistory {
  readonly id: string
  readonly events: CatalogueEvent[] = []
  #product: Record<string, unknown>
  readonly #versions = { product: 0, stock: 0 }

  constructor(product: Record<string, unknown> = {}) {
    this.id = typeof product.id === 'string' ? product.id : randomUUID()
    this.#product = {
      ...{ id: this.id, slug: 'mug', sku: 'MUG-1', name: 'Mug', description: 'Blue', category: 'kitchen', brand: null, image_url: null },
      ...{
        group: null,
        options: { size: 'L' },
        attributes: {},
        price: { amount: 1_250, currency: 'EUR' },
        compare_at_price: null,
        prices: [],
        categories: [],
        translations: {},
        images: [],
      },
      ...{ seo: { title: null, description: null }, availability_text: null, created_at: '2026-03-01T08:00:00.000Z', archived_at: null },
      ...product,
    }
  }

  /** An event of the whole product, after these properties have changed. */
  change(type: 'created' | 'updated' | 'archived' | 'restored', at: string, properties: Record<string, unknown> = {}): this {
    this.#product = { ...this.#product, ...properties }
    return this.#add('product', `product.${type}`, at, { product: this.#product })
  }

  /** The event of a price, and that of the product which has it. The store reads its clock for the later one first. */
  reprice(at: string, amount: number, compareAt: number | null = null, currency = this.#currency): this {
    const others = this.#product.prices as OtherPrice[]
    const next =
      currency === this.#currency
        ? { price: { amount, currency }, compare_at_price: toMoney(compareAt, currency) }
        : { prices: others.map((other) => (other.currency === currency ? { amount, currency, compare_at: compareAt } : other)) }
    const previous = this.#offer(currency)
    const later = new Date(Date.parse(at) + 1).toISOString()
    const { id, sku } = this.#product
    const now = { price: { amount, currency }, compare_at_price: toMoney(compareAt, currency) }
    return this.#add('product', 'price.changed', later, { product_id: id, sku, ...now, ...previous }).change('updated', at, next)
  }

  get #currency(): string {
    return (this.#product.price as { currency: string }).currency
  }

  #offer(currency: string) {
    const { price, compare_at_price, prices } = this.#product
    if (currency === this.#currency) return { previous_price: price, previous_compare_at_price: compare_at_price }
    const other = (prices as OtherPrice[]).find((each) => each.currency === currency)
    if (other === undefined) throw new RangeError(`the product has no price in ${currency}`)
    return { previous_price: toMoney(other.amount, currency), previous_compare_at_price: toMoney(other.compare_at, currency) }
  }

  /** The event of a price in another currency, null for none, and that of the product, whose own price stays. */
  repriceIn(at: string, currency: string, amount: number | null, previous: number | null): this {
    const toMoney = (value: number | null) => (value === null ? null : { amount: value, currency })
    const data = {
      product_id: this.id,
      sku: this.#product.sku,
      price: toMoney(amount),
      previous_price: toMoney(previous),
      compare_at_price: null,
      previous_compare_at_price: null,
    }
    return this.#add('product', 'price.changed', at, data).change('updated', at)
  }

  stock(at: string, available: number | null, previous: number | null): this {
    const type = available === 0 ? 'depleted' : previous === 0 ? 'replenished' : 'level_changed'
    return this.#add('stock', `stock.${type}`, at, { product_id: this.id, sku: this.#product.sku, available, previous_available: previous })
  }

  #add(stream: 'product' | 'stock', type: string, time: string, data: object): this {
    const version = ++this.#versions[stream]
    const id = stream === 'stock' ? `${this.id}.stock.${version}` : `${this.id}.${version}`
    this.events.push({
      ...{ specversion: '1.0', source: '/products', datacontenttype: 'application/json', partitionkey: this.id },
      ...{ id, type: `storefront.${type}` as CatalogueEventType, subject: this.id, time, sequence: String(version).padStart(10, '0') },
      data: data as CatalogueEventData,
    })
    return this
  }
}

/** The events as messages with the sequences `from`, `from + 1` … */
export function toMessages(events: readonly CatalogueEvent[], from = 1): TopicMessage<CatalogueEvent>[] {
  return events.map((event, index) => ({ sequence: from + index, event }))
}

function toMoney(amount: number | null, currency: string) {
  return amount === null ? null : { amount, currency }
}

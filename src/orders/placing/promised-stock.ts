import type { SellableProduct } from '../../catalogue/products.ts'
import type { Shortage, StockLine } from '../../catalogue/stock.ts'

/**
 * Stock that nobody has looked at: there is enough of what the catalogue says is in stock. Whoever takes of it must see to it that that
 * is so.
 */
export class PromisedStock {
  readonly #products: ReadonlyMap<string, SellableProduct>
  /** What was taken, by product. */
  readonly taken = new Map<string, number>()

  constructor(products: ReadonlyMap<string, SellableProduct>) {
    this.#products = products
  }

  shortagesOf(lines: readonly StockLine[]): Shortage[] {
    const shortages: Shortage[] = []
    for (const { product_id, quantity } of lines) {
      if (this.#products.get(product_id)?.inStock !== true) shortages.push({ product_id, requested: quantity, available: 0 })
    }
    return shortages
  }

  take(lines: readonly StockLine[]): void {
    for (const { product_id, quantity } of lines) this.taken.set(product_id, (this.taken.get(product_id) ?? 0) + quantity)
  }
}

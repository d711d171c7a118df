import type { Decimal } from './amounts.ts'
import { type Conversion, labelOf, notForSale, unmappable } from './conversion.ts'
import { draft, groupOf, toProductLine } from './shop-products.ts'
import { type ExpectedFile, readJsonRecords } from './shop-records.ts'

type Text = string | null
interface Price {
  amount: Decimal
  currency_code: string
  min_quantity?: number | null
  /** Limits the price to a region or a group of customers. */
  rules?: object | null
  price_list_id?: Text
}
interface Product {
  id: string
  title: string
  handle?: Text
  status: string
  description?: Text
  is_giftcard?: boolean
  thumbnail?: Text
  images?: { url?: Text }[]
  categories?: { name?: Text }[]
  collection?: { title?: Text } | null
  variants: {
    id: string
    sku?: Text
    manage_inventory?: boolean
    allow_backorder?: boolean
    inventory_quantity?: number | null
    prices?: Price[]
    options?: { value: string; option?: { title?: Text } | null }[]
  }[]
}

const PRODUCTS: ExpectedFile = { key: 'products', members: ['id', 'title', 'status', 'variants'], expected: 'the pages of /admin/products' }

/** The Admin API of Medusa 2. The variants of one product are a group. */
export async function* convertMedusaProducts(
  file: string,
  conversion: Conversion,
  { currency }: { currency: string },
): AsyncGenerator<string> {
  for await (const product of readJsonRecords<Product>(file, PRODUCTS)) {
    const { title, variants, categories = [], collection, images = [], thumbnail } = product
    if (variants.length === 0) conversion.add(labelOf(product.id, title), () => unmappable('it has no variants'))
    variants.forEach((variant, index) => {
      const sku = variant.sku || `medusa-${variant.id}`
      const label = labelOf(sku, title)
      conversion.add(label, () => {
        const isWithheld = product.status === 'draft' || product.status === 'proposed'
        if (!isWithheld && product.status !== 'published') notForSale(`its status is ${product.status}`)
        if (product.is_giftcard) unmappable('gift cards cannot be sold here')
        return toProductLine(
          {
            sku,
            withheld: isWithheld ? draft(`its status is ${product.status}`) : null,
            name: title,
            description: product.description ?? '',
            categories: (categories.length > 0 ? categories.map(({ name }) => name) : [collection?.title]).flatMap((name) =>
              name ? [[name]] : [],
            ),
            slug: index === 0 ? product.handle : null,
            images: [{ url: thumbnail }, ...images],
            price: priceOf(variant.prices ?? [], currency),
            ...(variants.length > 1
              ? {
                  group: groupOf(product.handle, product.id),
                  options: Object.fromEntries(
                    (variant.options ?? []).map(({ value, option }) => [
                      option?.title || unmappable('its options have no titles: the fields need *variants.options.option'),
                      value,
                    ]),
                  ),
                }
              : {}),
            stock: stockOf(variant),
          },
          currency,
          label,
          conversion,
        )
      })
    })
    yield conversion.take()
  }
}

/** The price of one unit for every customer. Returns null without a price in the currency. Throws Unmappable. */
function priceOf(prices: readonly Price[], currency: string): Decimal | null {
  const known = prices.filter(({ currency_code }) => currency_code.toUpperCase() === currency)
  const forAll = known.filter(
    ({ rules, price_list_id, min_quantity }) => Object.keys(rules ?? {}).length === 0 && !price_list_id && (min_quantity ?? 1) <= 1,
  )
  const [amount = null, ...others] = new Set(forAll.map((price) => price.amount))
  if (amount === null && known.length > 0)
    unmappable(`its prices in ${currency} are all for a region, a group of customers, a price list or several units`)
  if (others.length > 0) unmappable(`it has several prices in ${currency}: ${[amount, ...others].join(', ')}`)
  return amount
}

function stockOf({ manage_inventory, allow_backorder, inventory_quantity }: Product['variants'][number]): number | null {
  if (manage_inventory === false || allow_backorder === true) return null
  return inventory_quantity ?? unmappable('its stock is managed, and the file has no inventory_quantity')
}

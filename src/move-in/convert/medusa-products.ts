import type { Decimal } from './amounts.ts'
import { type Conversion, labelOf, notForSale, unmappable } from './conversion.ts'
import { draft, toProductLine } from './shop-products.ts'
import { type ExpectedFile, readJsonRecords } from './shop-records.ts'

type Text = string | null
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
    prices?: { amount: Decimal; currency_code: string; min_quantity?: number | null }[]
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
        const price = variant.prices?.find(
          ({ currency_code, min_quantity }) => currency_code.toUpperCase() === currency && (min_quantity ?? 1) <= 1,
        )
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
            price: price?.amount,
            ...(variants.length > 1
              ? {
                  group: product.handle || product.id,
                  options: Object.fromEntries((variant.options ?? []).map(({ value, option }) => [option?.title || 'option', value])),
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

function stockOf({ manage_inventory, allow_backorder, inventory_quantity }: Product['variants'][number]): number | null {
  if (manage_inventory === false || allow_backorder === true) return null
  return inventory_quantity ?? unmappable('its stock is managed, and the file has no inventory_quantity')
}

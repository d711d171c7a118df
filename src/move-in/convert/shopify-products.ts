import type { Decimal } from './amounts.ts'
import { type Conversion, labelOf, notForSale, unmappable } from './conversion.ts'
import { draft, groupOf, toProductLine, toStableIdentifier, type Withheld } from './shop-products.ts'
import { isTable, type Row, readTable } from './shop-tables.ts'
import { bulkOperation, readBulkOperation } from './shopify-orders.ts'

type Text = string | null
interface Image {
  url?: Text
  src?: Text
  altText?: Text
}
interface Variant {
  id?: string
  sku?: Text
  price?: Decimal | null
  compareAtPrice?: Decimal | null
  inventoryQuantity?: number | null
  inventoryPolicy?: Text
  inventoryItem?: { tracked?: boolean } | null
  selectedOptions?: { name: string; value: string }[]
  image?: Image | null
}
interface Media {
  image?: Image | null
}
interface Product {
  id: string
  title: string
  handle?: Text
  status: string
  publishedAt?: Text
  vendor?: Text
  productType?: Text
  descriptionHtml?: Text
  isGiftCard?: boolean
  requiresSellingPlan?: boolean
  seo?: { title?: Text; description?: Text } | null
  children: (Variant & Media & Image)[]
}

const PRODUCTS = bulkOperation('products', ['id', 'title', 'status', 'publishedAt'])
const COLUMNS = ['handle', 'title', 'variant price', 'status', 'published']

/** Converts a bulk operation's JSONL or the admin's CSV. The variants of one product become a group. */
export async function* convertShopifyProducts(
  file: string,
  conversion: Conversion,
  { currency, encoding, now }: { currency: string; encoding?: string | undefined; now: Date },
): AsyncGenerator<string> {
  const products = (await isTable(file))
    ? productsOf(
        readTable(file, { required: COLUMNS, expected: 'the product export of the Shopify admin', encoding, aliases: NEW_COLUMNS }),
      )
    : readBulkOperation<Product>(file, PRODUCTS)
  for await (const product of products) {
    const variants = product.children.filter((child) => child.price !== undefined)
    const images = product.children.filter((child) => child.price === undefined).map((child) => child.image ?? child)
    if (variants.length === 0) conversion.add(labelOf(product.handle ?? product.id, product.title), () => unmappable('it has no variants'))
    variants.forEach((variant, index) => {
      const sku = variant.sku || madeUpSku(product, variant)
      const label = labelOf(sku, product.title)
      conversion.add(label, () => {
        if (product.handle === '') unmappable('it has no handle')
        const withheld = assertForSale(product, now)
        return toProductLine(
          {
            withheld,
            sku,
            name: product.title,
            description: product.descriptionHtml ?? '',
            categories: product.productType ? [[product.productType]] : [],
            brand: product.vendor,
            // The other variants get their own slugs.
            slug: index === 0 ? product.handle : null,
            images: [variant.image, ...images].map((image) => ({ url: image?.url ?? image?.src, alt: image?.altText })),
            price: variant.price,
            compareAt: variant.compareAtPrice,
            ...(variants.length > 1
              ? {
                  group: groupOf(product.handle, product.id.split('/').at(-1) ?? product.id),
                  options: Object.fromEntries((variant.selectedOptions ?? []).map(({ name, value }) => [name, value])),
                }
              : {}),
            stock: stockOf(variant),
            seo: product.seo,
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

/** The CSV has no ids, so the values of the options name the variant, wherever its row is. */
function madeUpSku({ handle }: Product, { id, selectedOptions = [] }: Variant): string {
  if (id !== undefined) return `shopify-${id.split('/').at(-1)}`
  const values = selectedOptions.map(({ value }) => value).filter((value) => value !== 'Default Title')
  return toStableIdentifier([`shopify-${handle}`, ...values].join(':'))
}

/**
 * The reason for which the product is not for sale, by
 * https://shopify.dev/docs/api/admin-graphql/latest/enums/ProductStatus
 */
function assertForSale({ status, publishedAt, isGiftCard, requiresSellingPlan }: Product, now: Date): Withheld | null {
  if (status !== 'ACTIVE' && status !== 'DRAFT') notForSale(`it is ${status.toLowerCase()}`)
  if (isGiftCard) unmappable('gift cards cannot be sold here')
  if (requiresSellingPlan) unmappable('subscriptions cannot be sold here')
  if (status === 'DRAFT') return draft('it is a draft')
  if (!publishedAt) return draft('it is not published')
  return new Date(publishedAt) > now ? { reason: `it is published on ${publishedAt}`, published_at: publishedAt } : null
}

function stockOf({ inventoryItem, inventoryQuantity, inventoryPolicy }: Variant): number | null {
  if (inventoryItem?.tracked === false || inventoryPolicy === 'CONTINUE') return null
  return inventoryQuantity ?? unmappable('its stock is tracked, and the file has no whole quantity')
}

/** Maps the column names of 2025 to the older names. */
const NEW_COLUMNS = {
  'url handle': 'handle',
  description: 'body (html)',
  sku: 'variant sku',
  price: 'variant price',
  'compare-at price': 'variant compare at price',
  'inventory tracker': 'variant inventory tracker',
  'inventory quantity': 'variant inventory qty',
  'continue selling when out of stock': 'variant inventory policy',
  'published on online store': 'published',
  'product image url': 'image src',
  'image alt text': 'image alt text',
  'variant image url': 'variant image',
}

/** Groups rows by handle into products. The first row has the texts, and each row has a variant, an image or both. */
async function* productsOf(rows: AsyncIterable<Row>): AsyncGenerator<Product> {
  let product = null as Product | null
  let names: string[] = []
  for await (const row of rows) {
    const handle = row.text('handle')
    if (product?.handle !== handle) {
      if (product !== null) yield product
      names = []
      product = {
        ...{ id: toStableIdentifier(handle), handle, title: row.text('title'), vendor: row.text('vendor'), productType: row.text('type') },
        descriptionHtml: row.text('body (html)'),
        status: row.text('status').toUpperCase() || 'ACTIVE',
        publishedAt: row.isTrue('published') ? '1970-01-01T00:00:00Z' : null,
        isGiftCard: row.isTrue('gift card'),
        seo: { title: row.text('seo title'), description: row.text('seo description') },
        children: [],
      }
    }
    names = [1, 2, 3].map((place) => row.text(`option${place} name`) || names[place - 1] || '')
    if (row.text('image src') !== '') product.children.push({ url: row.text('image src'), altText: row.text('image alt text') })
    if (['variant price', 'variant sku', 'option1 value'].every((column) => row.text(column) === '')) continue
    product.children.push({
      sku: row.text('variant sku'),
      price: row.decimal('variant price'),
      compareAtPrice: row.decimal('variant compare at price'),
      inventoryPolicy: /^(continue|true)$/i.test(row.text('variant inventory policy')) ? 'CONTINUE' : 'DENY',
      inventoryItem: { tracked: row.text('variant inventory tracker') !== '' },
      inventoryQuantity: row.whole('variant inventory qty'),
      selectedOptions: names.flatMap((name, place) => {
        const value = row.text(`option${place + 1} value`)
        return name === '' || value === '' ? [] : [{ name, value }]
      }),
      image: { url: row.text('variant image') },
    })
  }
  if (product !== null) yield product
}

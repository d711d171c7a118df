import { type Conversion, labelOf, notForSale, unmappable, WrongFile } from './conversion.ts'
import { draft, groupOf, pricesAt, type ShopProduct, toProductLine, type Withheld } from './shop-products.ts'
import { readJsonRecords } from './shop-records.ts'
import { isTable } from './shop-tables.ts'
import { restPages } from './woocommerce-orders.ts'
import { readWooCommerceTable, type WooImage, type WooProduct } from './woocommerce-table.ts'

const PRODUCTS = restPages('products', ['id', 'name', 'price', 'status', 'stock_status'])
const VARIATIONS = restPages('products/ID/variations', ['id', 'price', 'status', 'stock_status', 'attributes'])

/** Converts REST pages with a second file of variations, or the exporter's CSV. A variable product becomes a group. */
export async function* convertWooCommerceProducts(
  file: string,
  conversion: Conversion,
  { currency, encoding, variations, now }: { currency: string; encoding?: string | undefined; variations?: string | undefined; now: Date },
): AsyncGenerator<string> {
  let products: AsyncIterable<WooProduct> | Iterable<WooProduct>
  let known = new Map<number, WooProduct>()
  if (await isTable(file)) {
    if (variations !== undefined) throw new WrongFile('--variations is for the pages of the REST API: the CSV has the variations')
    ;({ products, variations: known } = await readWooCommerceTable(file, encoding, conversion))
  } else {
    products = readJsonRecords<WooProduct>(file, PRODUCTS)
    if (variations !== undefined) for await (const one of readJsonRecords<WooProduct>(variations, VARIATIONS)) known.set(one.id, one)
  }
  const claimed = new Set<number>()
  for await (const product of products) {
    for (const id of product.variations ?? []) claimed.add(id)
    if (product.type === 'variable') convertVariable(product, known, conversion, { currency, now })
    else {
      const label = labelOf(product.sku || product.id, product.name)
      conversion.add(label, () => {
        const withheld = assertForSale(product)
        return toProductLine(
          { ...describe(product, { now, currency }), withheld, slug: product.slug, stock: stockOf(product) },
          currency,
          label,
          conversion,
        )
      })
    }
    yield conversion.take()
  }
  for (const [id, { sku, name }] of known)
    if (!claimed.has(id))
      conversion.add(labelOf(sku || `variation ${id}`, name), () => unmappable('its variable product is not in the file'))
}

function convertVariable(
  parent: WooProduct,
  known: ReadonlyMap<number, WooProduct>,
  conversion: Conversion,
  at: { currency: string; now: Date },
): void {
  const { id, sku, name, variations = [] } = parent
  const axes = (parent.attributes ?? []).filter(({ variation }) => variation !== false).map((attribute) => attribute.name)
  if (variations.length === 0) conversion.add(labelOf(sku || id, name), () => unmappable('it is variable and has no variations'))
  variations.forEach((variationId, index) => {
    const found = known.get(variationId)
    // The REST API answers the sku of the product for a variation without one.
    const variation = found?.sku && found.sku === sku ? { ...found, sku: null } : found
    const label = labelOf(variation?.sku || `variation ${variationId}`, name)
    conversion.add(label, () => {
      const withheld = assertForSale({ ...parent, type: 'simple', purchasable: true })
      if (variation === undefined)
        return unmappable(`it is not in the file of --variations, which has the pages of /wp-json/wc/v3/products/${id}/variations`)
      const withheldAlone = assertForSale({ ...variation, type: 'simple', catalog_visibility: 'visible' })
      const options = Object.fromEntries((variation.attributes ?? []).map((attribute) => [attribute.name, attribute.option ?? '']))
      const open = axes.find((axis) => !options[axis]) ?? Object.keys(options).find((axis) => options[axis] === '')
      if (open !== undefined || Object.keys(options).length === 0)
        unmappable(`it stands for any ${open ?? 'option'}: make a variation of each`)
      const own = describe(variation, at)
      return toProductLine(
        {
          ...describe(parent, at),
          sku: own.sku,
          withheld: withheld ?? withheldAlone,
          description: [parent.description, variation.description].filter(Boolean).join('\n'),
          images: [variation.image ?? {}, ...(variation.images ?? []), ...(parent.images ?? [])].map(toImage),
          ...{ price: own.price, compareAt: own.compareAt, sale: own.sale },
          slug: index === 0 ? parent.slug : null,
          group: groupOf(parent.slug, String(id)),
          options,
          stock: stockOf(variation, parent),
        },
        at.currency,
        label,
        conversion,
      )
    })
  })
}

const toImage = ({ src, alt }: WooImage) => ({ url: src, alt })

/** In the REST API, a sale without times is in `price`, the current price. A CSV has no such member. */
function pricesOf(product: WooProduct, at: { now: Date; currency: string }): Pick<ShopProduct, 'price' | 'compareAt' | 'sale'> {
  const { price, on_sale, sale_price: amount, date_on_sale_from_gmt: from, date_on_sale_to_gmt: to } = product
  const regular = product.regular_price || (price ?? null)
  if (price !== undefined && (!amount || (!from && !to))) return { price, compareAt: on_sale === true ? regular : null }
  return pricesAt(regular, amount ? { amount, from: timeOf(from, 0), until: timeOf(to, 1_000) } : null, at)
}

/** Reads a time such as 2026-03-01T00:00:00, and adds some milliseconds. */
function timeOf(text: string | null | undefined, laterMs: number): Date | null {
  if (!text) return null
  const ms = Date.parse(`${text.replace(/Z$/, '')}Z`)
  return Number.isNaN(ms) ? unmappable(`the time of its sale price, ${text}, is none`) : new Date(ms + laterMs)
}

function describe(product: WooProduct, at: { now: Date; currency: string }): Omit<ShopProduct, 'stock'> {
  const { id, sku, name, description, short_description, categories = [], brands = [], images = [] } = product
  return {
    sku: sku || `woocommerce-${id}`,
    name: name ?? '',
    description: description || short_description || '',
    // The REST API omits parents of categories: create the tree first, or arrange it afterwards.
    categories: categories.map((each) => each.path ?? [each.name || each.slug || '']),
    brand: brands[0]?.name,
    images: images.map(toImage),
    ...pricesOf(product, at),
  }
}

const SOLD_TYPES = ['simple', 'variation', undefined, null, '']

function assertForSale({ type, status, catalog_visibility, post_password, purchasable }: WooProduct): Withheld | null {
  const isWithheld = ['draft', 'pending', 'private', 'future'].includes(status ?? '')
  if (!isWithheld && status !== 'publish') notForSale(`its status is ${status}`)
  if (post_password) notForSale('it needs a password')
  if (catalog_visibility === 'hidden') notForSale('it is hidden')
  if (type === 'external') notForSale('it is sold elsewhere (external)')
  if (type === 'grouped') notForSale('it is a list of other products (grouped)')
  if (!SOLD_TYPES.includes(type)) unmappable(`its type ${type} cannot be sold here`)
  // WooCommerce does not sell an unpublished product, so the status is checked before `purchasable`.
  if (isWithheld) return draft(status === 'future' ? 'it is published later' : `its status is ${status}`)
  if (purchasable === false) notForSale('it cannot be bought')
  return null
}

/** `outofstock` without a number is 0. Products with backorders have no limit. */
function stockOf(product: WooProduct, parent?: WooProduct): number | null {
  const { manage_stock, stock_quantity, stock_status, backorders } = product
  if (manage_stock === 'parent') {
    const shared = parent === undefined ? null : stockOf({ ...parent, manage_stock: true })
    if (shared === null || shared === 0 || parent?.variations?.length === 1) return shared
    return unmappable('its variations share one stock: give each its own')
  }
  if (manage_stock !== true) {
    if (stock_status === 'instock' || stock_status === 'onbackorder') return null
    return stock_status === 'outofstock' ? 0 : unmappable(`its stock_status is ${stock_status}`)
  }
  if (backorders === 'yes' || backorders === 'notify') return null
  const stock = stock_quantity ?? 0
  if (!Number.isSafeInteger(stock)) unmappable(`its stock, "${stock}", is no clear whole number`)
  return Math.max(0, Number(stock))
}

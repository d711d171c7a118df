import type { Decimal } from './amounts.ts'
import { type Conversion, labelOf, unmappable } from './conversion.ts'
import { type Row, readDay, readTable } from './shop-tables.ts'

type Text = string | null
export interface WooImage {
  src?: Text
  alt?: Text
}
/** A product or a variation of the REST API. */
export interface WooProduct {
  id: number
  type?: Text
  sku?: Text
  name?: Text
  slug?: Text
  status: string
  catalog_visibility?: Text
  post_password?: Text
  purchasable?: boolean
  description?: Text
  short_description?: Text
  price?: Decimal | null
  regular_price?: Decimal | null
  on_sale?: boolean
  sale_price?: Decimal | null
  date_on_sale_from_gmt?: Text
  /** The last second of the sale. */
  date_on_sale_to_gmt?: Text
  manage_stock?: boolean | 'parent'
  /** A text if it is not clearly a whole number. */
  stock_quantity?: number | string | null
  stock_status?: Text
  backorders?: Text
  categories?: { name?: Text; slug?: Text; path?: string[] }[]
  brands?: { name?: Text }[]
  images?: WooImage[]
  image?: WooImage | null
  variations?: number[]
  attributes?: { name: string; option?: Text; variation?: boolean }[]
}

const COLUMNS = ['id', 'type', 'sku', 'name', 'published', 'in stock?', 'stock', 'regular price']
const EXPECTED = 'the CSV of the product exporter of WooCommerce in English, with all columns'

interface Variation extends WooProduct {
  parent: string
}

/**
 * Reads the CSV of https://github.com/woocommerce/woocommerce/wiki/Product-CSV-Import-Schema. Variations may be
 * anywhere in the file, so all of it is in memory.
 */
export async function readWooCommerceTable(
  file: string,
  encoding: string | undefined,
  conversion: Conversion,
): Promise<{ products: WooProduct[]; variations: Map<number, WooProduct> }> {
  const products: WooProduct[] = []
  const variations = new Map<number, Variation>()
  const ids = new Set<number>()
  for await (const row of readTable(file, { required: COLUMNS, expected: EXPECTED, encoding, unescapeCell: unescapeFormula })) {
    const id = row.whole('id')
    const label = labelOf(row.text('sku') || `line ${row.line}`, row.text('name'))
    if (id === null) conversion.add(label, () => unmappable(`its ID, "${row.text('id')}", is no clear whole number`))
    else if (ids.has(id)) conversion.add(label, () => unmappable(`line ${row.line} has the ID ${id} again`))
    else {
      ids.add(id)
      const product = toProduct(id, row)
      if (product.type === 'variation') variations.set(id, { ...product, parent: row.text('parent') })
      else products.push(product)
    }
  }
  const byParent = Map.groupBy(variations.values(), ({ parent }) => parent)
  for (const product of products) {
    if (product.type !== 'variable') continue
    const names = [`id:${product.id}`, ...(product.sku ? [product.sku] : [])]
    product.variations = names.flatMap((name) => byParent.get(name) ?? []).map(({ id }) => id)
  }
  return { products, variations }
}

/** The exporter writes an apostrophe before a text that a spreadsheet would take for a formula. */
function unescapeFormula(cell: string): string {
  return cell.replace(/^'(?=[=+\-@])/, '')
}

function toProduct(id: number, row: Row): WooProduct {
  // The cell lists a type first, such as `simple, virtual, downloadable`.
  const [type = ''] = row.text('type').split(',')
  const sale = readSale(row)
  const regular = row.decimal('regular price')
  const stock = row.text('stock')
  const attributes = Array.from({ length: 20 }, (_, index) => index + 1).flatMap((place) => {
    const name = row.text(`attribute ${place} name`)
    return name === '' ? [] : [{ name, option: row.text(`attribute ${place} value(s)`).replaceAll('\\,', ',') }]
  })
  const isVariation = type === 'variation'
  return {
    id,
    type,
    sku: row.text('sku'),
    name: row.text('name'),
    slug: null,
    status: row.text('published') === '1' ? 'publish' : row.text('published') === '-1' ? 'draft' : 'private',
    catalog_visibility: row.text('visibility in catalog') || 'visible',
    description: row.text('description').replaceAll('\\n', '\n'),
    short_description: row.text('short description').replaceAll('\\n', '\n'),
    regular_price: regular,
    ...sale,
    manage_stock: stock === 'parent' ? 'parent' : stock !== '',
    stock_quantity: row.whole('stock') ?? stock,
    stock_status: { '1': 'instock', '0': 'outofstock', backorder: 'onbackorder' }[row.text('in stock?')] ?? row.text('in stock?'),
    backorders: { '0': 'no', '1': 'yes', notify: 'notify' }[row.text('backorders allowed?')] ?? 'no',
    // A comma inside a name is escaped.
    categories: splitList(row.text('categories')).map((path) => ({ path: path.split('>').map((name) => name.trim()) })),
    brands: splitList(row.text('brands')).map((name) => ({ name })),
    images: row
      .text('images')
      .split(/,\s+|,(?=https?:)/)
      .map((src) => ({ src: src.trim() })),
    // The attributes of a parent list all values, so they are omitted. Its variations name their own.
    attributes: isVariation ? attributes : [],
  }
}

function splitList(text: string): string[] {
  return text
    .split(/(?<!\\),/)
    .map((part) => part.replaceAll('\\,', ',').trim())
    .filter(Boolean)
}

/**
 * Reads a sale. Dates are days of the shop, such as 2026-03-01. Another form yields a price that is refused as an
 * amount.
 */
function readSale(row: Row) {
  const sale = row.decimal('sale price')
  const [starts, ends] = [row.text('date sale price starts'), row.text('date sale price ends')]
  if (sale === null) return { sale_price: null }
  const unclear = [starts, ends].find((day) => day !== '' && readDay(day) === null)
  if (unclear !== undefined) return { sale_price: `${sale} with the date ${unclear} (not of the form 2026-03-01)` }
  const [from, to] = [readDay(starts), readDay(ends)]
  return {
    sale_price: sale,
    date_on_sale_from_gmt: from === null ? null : `${from}T00:00:00`,
    date_on_sale_to_gmt: to === null ? null : `${to}T23:59:59`,
  }
}

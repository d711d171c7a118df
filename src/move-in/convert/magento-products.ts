import { type Conversion, labelOf, notForSale, unmappable } from './conversion.ts'
import { draft, pricesAt, toProductLine, type Withheld } from './shop-products.ts'
import { type Row, readDay, readTable, startOf } from './shop-tables.ts'

const COLUMNS = ['sku', 'product_type', 'product_online', 'visibility', 'price', 'qty', 'is_in_stock']
const HIDDEN = 'Not Visible Individually'

interface Parent {
  row: Row
  options: Record<string, string>
  isFirst: boolean
}

/**
 * System → Export → Products. Simple products may be anywhere, so the whole file is in memory.
 * https://experienceleague.adobe.com/en/docs/commerce-admin/systems/data-transfer/data-attributes-product
 */
export async function* convertMagentoProducts(
  file: string,
  conversion: Conversion,
  {
    currency,
    encoding,
    imagesBelow,
    now,
  }: { currency: string; encoding?: string | undefined; imagesBelow?: string | undefined; now: Date },
): AsyncGenerator<string> {
  const rows = new Map<string, Row>()
  const parents = new Map<string, Parent>()
  for await (const row of readTable(file, { required: COLUMNS, expected: 'the product export of Magento', encoding })) {
    const sku = row.text('sku')
    if (row.text('store_view_code') !== '')
      conversion.note(labelOf(sku), `its texts and prices of the store view ${row.text('store_view_code')} are left out`)
    else if (rows.has(sku)) conversion.add(labelOf(sku), () => unmappable(`line ${row.line} has the sku again`))
    else rows.set(sku, row)
  }
  for (const row of rows.values()) {
    if (row.text('product_type') !== 'configurable') continue
    const variants = readVariations(row.text('configurable_variations'))
    const label = labelOf(row.text('sku'), row.text('name'))
    if (variants.length === 0) conversion.add(label, () => unmappable('it is configurable and has no configurable_variations'))
    variants.forEach(({ sku, options }, index) => {
      const other = parents.get(sku)
      if (other === undefined) parents.set(sku, { row, options, isFirst: index === 0 })
      else conversion.note(label, `its variation ${sku} stays in the group of ${other.row.text('sku')}, which has it too`)
      if (!rows.has(sku)) conversion.add(label, () => unmappable(`its variation ${sku} is not in the file`))
    })
  }
  for (const [sku, row] of rows) {
    if (row.text('product_type') === 'configurable') continue
    const parent = parents.get(sku)
    const label = labelOf(sku, row.text('name'))
    conversion.add(label, () => {
      const withheld = assertForSale(row, parent?.row)
      const shown = parent?.row ?? row
      return toProductLine(
        {
          sku,
          withheld,
          name: shown.text('name'),
          description: shown.text('description') || row.text('description'),
          categories: readCategories(shown.text('categories')),
          brand: readPairs(row.text('additional_attributes')).get('manufacturer'),
          slug: parent === undefined || parent.isFirst ? shown.text('url_key') : null,
          images: readImages([row, shown], imagesBelow, () =>
            conversion.note(label, 'its images are left out: give their folder with --images-below'),
          ),
          ...readPrices(row, { now, currency }),
          ...(parent === undefined ? {} : { group: parent.row.text('sku'), options: parent.options }),
          stock: stockOf(row),
          seo: { title: shown.text('meta_title'), description: shown.text('meta_description') },
        },
        currency,
        label,
        conversion,
      )
    })
    yield conversion.take()
  }
  yield conversion.take()
}

function assertForSale(row: Row, parent: Row | undefined): Withheld | null {
  const shown = parent ?? row
  if (shown.text('visibility') === HIDDEN) notForSale('it is not visible individually')
  const type = row.text('product_type')
  if (type === 'grouped') notForSale('it is a list of other products (grouped)')
  if (!['simple', 'virtual', 'downloadable'].includes(type)) unmappable(`its type ${type} cannot be sold here`)
  if (row.text('product_online') !== '1') return draft('it is disabled')
  return shown.text('product_online') === '1' ? null : draft('its configurable product is disabled')
}

/** Stock that is tracked by the shop's own setting also has 1 in `manage_stock`. */
function stockOf(row: Row): number | null {
  const allowsBackorders = /^[12]$/.test(row.text('allow_backorders')) && row.text('use_config_backorders') !== '1'
  if (!row.isTrue('is_in_stock')) return 0
  if (row.text('manage_stock') === '0' && row.text('use_config_manage_stock') !== '1') return null
  if (allowsBackorders) return null
  if (row.isTrue('is_qty_decimal')) return unmappable('it is sold by parts of a unit')
  return row.whole('qty') ?? unmappable(`its qty, "${row.text('qty')}", is no clear whole number`)
}

function readPrices(row: Row, at: { now: Date; currency: string }) {
  const [price, special] = [row.decimal('price'), row.decimal('special_price')]
  const from = toDay(row.text('special_price_from_date'))
  const to = toDay(row.text('special_price_to_date'))
  return pricesAt(price, special === null ? null : { amount: special, from: startOf(from), until: startOf(to, 1) }, at)
}

/** Reads a day. Exports write `2026-03-01 00:00:00`. Localized forms such as `3/1/26` are refused. */
function toDay(text: string): string | null {
  if (text === '') return null
  return readDay(text) ?? unmappable(`the time of its special price, ${text}, is not of the form 2026-03-01`)
}

/** Reads paths such as `Default Category/Gear/Bags`, without the root. Magento escapes a slash in a name. */
function readCategories(text: string): string[][] {
  return text
    .split(',')
    .map((path) =>
      path
        .split(/(?<!\\)\//)
        .slice(1)
        .map((name) => name.replaceAll('\\/', '/').trim()),
    )
    .filter((path) => path.length > 0)
}

/** Reads variations such as `sku=A-S,size=S|sku=A-M,size=M`. */
function readVariations(text: string): { sku: string; options: Record<string, string> }[] {
  return text.split(/\|(?=(?:[^|]*,)?sku=)/).flatMap((part) => {
    const { sku, ...options } = Object.fromEntries(readPairs(part))
    return sku === undefined ? [] : [{ sku, options }]
  })
}

/** A part without `=` is a further part of the previous value, as in `size=8,5`. */
function readPairs(text: string): Map<string, string> {
  return new Map(
    text
      .split(/,(?=[^,=]+=)/)
      .map((pair) => pair.split('='))
      .flatMap(([name = '', ...value]) => (value.length === 0 ? [] : [[name.trim(), value.join('=').trim()] as const])),
  )
}

/** Reads images: addresses, or paths below the media folder such as `/m/u/mug.jpg`. */
function readImages(rows: readonly Row[], below: string | undefined, onLeftOut: () => void): { url: string; alt?: string }[] {
  const images = rows.flatMap((row) => [
    { path: row.text('base_image'), alt: row.text('base_image_label') },
    ...row
      .text('additional_images')
      .split(',')
      .map((path) => ({ path: path.trim(), alt: '' })),
  ])
  const found = images.filter(({ path }) => path !== '' && path !== 'no_selection')
  const isPath = ({ path }: { path: string }) => !/^https?:/i.test(path)
  if (below === undefined && found.some(isPath)) onLeftOut()
  return found
    .filter((image) => below !== undefined || !isPath(image))
    .map((image) => ({ url: isPath(image) ? `${below?.replace(/\/$/, '')}/${image.path.replace(/^\//, '')}` : image.path, alt: image.alt }))
}

// Exports of one mug for the tests, with the members and columns that the shops document. `changes` has what a test
// changes.

const HTML = '<style>p{color:red}</style><p>A &amp; B&nbsp;C</p><script>alert(1)</script><p>more</p>'
const NAME = 'H&amp;M &#8211; Caf&eacute;'
const BRAND = 'Potter &amp; Sons'
const IMAGE = 'https://images.example/media/mug.jpg'
type Changes = Record<string, unknown>

export function shopifyJsonl({
  price = '8.50',
  before = '10.00',
  quantity = 3,
  policy = 'DENY',
  tracked = true,
  ...changes
}: Changes): string {
  const product = {
    ...{ id: 'gid://shopify/Product/1', title: NAME, handle: 'mug', status: 'ACTIVE', publishedAt: '2025-01-01T00:00:00Z' },
    ...{ vendor: BRAND, productType: 'Kitchen', descriptionHtml: HTML, seo: { title: null, description: null }, ...changes },
  }
  const variant = {
    ...{ id: 'gid://shopify/ProductVariant/2', sku: 'MUG-1', price, compareAtPrice: before || null, inventoryQuantity: quantity },
    ...{ inventoryPolicy: policy, inventoryItem: { tracked }, selectedOptions: [{ name: 'Title', value: 'Default Title' }] },
    __parentId: product.id,
  }
  const media = {
    id: 'gid://shopify/MediaImage/3',
    image: { url: '//images.example/media/mug.jpg', altText: 'A mug' },
    __parentId: product.id,
  }
  return [product, variant, media].map((record) => `${JSON.stringify(record)}\n`).join('')
}

export function wooProduct({ price = '8.50', before = '10.00', ...changes }: Changes): string {
  const product = {
    ...{
      id: 60,
      type: 'simple',
      sku: 'MUG-1',
      name: NAME,
      slug: 'mug',
      status: 'publish',
      catalog_visibility: 'visible',
      purchasable: true,
    },
    ...{ description: HTML, price, regular_price: before || price, sale_price: before ? price : '', on_sale: Boolean(before) },
    ...{
      manage_stock: true,
      stock_quantity: 3,
      stock_status: 'instock',
      backorders: 'no',
      categories: [{ id: 9, name: 'Kitchen &amp; Bath' }],
    },
    ...{ brands: [{ id: 1, name: BRAND }], images: [{ id: 1, src: IMAGE, alt: 'A mug' }], variations: [], attributes: [] },
    ...changes,
  }
  return `${JSON.stringify([product])}\n`
}

export function medusaProduct({
  price = 8.5,
  quantity = 3,
  manage_inventory = true,
  allow_backorder = false,
  currency,
  ...changes
}: Changes): string {
  const prices = [{ amount: Number(price), currency_code: currency ?? (price === '150000' ? 'pyg' : 'eur'), min_quantity: null }]
  const variant = { id: 'variant_1', sku: 'MUG-1', manage_inventory, allow_backorder, inventory_quantity: quantity, prices, options: [] }
  const product = {
    ...{ id: 'prod_1', title: NAME, handle: 'mug', status: 'published', description: HTML, thumbnail: IMAGE, images: [{ url: IMAGE }] },
    ...{ categories: [{ name: 'Kitchen' }], collection: null, variants: [variant], ...changes },
  }
  return JSON.stringify({ products: [product], count: 1, offset: 0, limit: 50 })
}

/** A table whose columns are those of the first row. */
function table(rows: readonly Record<string, unknown>[], delimiter = ','): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const quote = (cell: unknown) => `"${String(cell ?? '').replaceAll('"', '""')}"`
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))]
    .map((row) => `${row.map(quote).join(delimiter)}\r\n`)
    .join('')
}

/** https://help.shopify.com/en/manual/products/import-export/using-csv */
export function shopifyCsv(changes: Changes, delimiter = ','): string {
  const {
    price = '8.50',
    before = '10.00',
    quantity = '3',
    policy = 'deny',
    tracker = 'shopify',
    status = 'active',
    published = 'true',
    sizes,
  } = changes
  const variant = (sku: string, qty: unknown, option: string) => ({
    ...{
      'Option1 Value': option,
      'Variant SKU': sku,
      'Variant Grams': '350',
      'Variant Inventory Tracker': tracker,
      'Variant Inventory Qty': qty,
    },
    ...{
      'Variant Inventory Policy': policy,
      'Variant Fulfillment Service': 'manual',
      'Variant Price': price,
      'Variant Compare At Price': before,
    },
  })
  const first = {
    ...{ Handle: 'mug', Title: NAME, 'Body (HTML)': HTML, Vendor: BRAND, 'Product Category': '', Type: 'Kitchen', Tags: 'a, b' },
    ...{ Published: published, 'Option1 Name': sizes ? 'Size' : 'Title' },
    ...(sizes ? variant('MUG-S', '1', 'S') : variant('MUG-1', quantity, 'Default Title')),
    ...{
      'Image Src': IMAGE,
      'Image Position': '1',
      'Image Alt Text': 'A mug',
      'Gift Card': 'false',
      'SEO Title': '',
      'SEO Description': '',
    },
    Status: status,
  }
  return table(sizes ? [first, { Handle: 'mug', ...variant('MUG-M', '2', 'M') }] : [first], delimiter)
}

/** https://github.com/woocommerce/woocommerce/wiki/Product-CSV-Import-Schema */
export function wooCsv(changes: Changes): string {
  const {
    price = '8.50',
    before = '10.00',
    stock = '3',
    inStock = '1',
    backorders = '0',
    starts = '',
    ends = '',
    published = '1',
    visibility = 'visible',
    sizes,
  } = changes
  const row = (id: string, type: unknown, sku: string, more: Changes = {}) => ({
    ...{ ID: id, Type: type, SKU: sku, Name: NAME, Published: published, 'Is featured?': '0', 'Visibility in catalog': visibility },
    ...{
      'Short description': '',
      Description: HTML,
      'Date sale price starts': starts,
      'Date sale price ends': ends,
      'In stock?': inStock,
      Stock: stock,
    },
    ...{
      'Backorders allowed?': backorders,
      'Sale price': before ? price : '',
      'Regular price': before || price,
      Categories: 'Home > Kitchen, Sale',
    },
    ...{ Tags: '', Images: IMAGE, Parent: '', Brands: BRAND, 'Attribute 1 name': '', 'Attribute 1 value(s)': '', ...more },
  })
  if (!sizes) return table([row('60', changes.type ?? 'simple', 'MUG-1')])
  const variation = (id: string, size: string, qty: string) =>
    row(id, 'variation', `MUG-${size}`, { Stock: qty, Parent: 'id:60', 'Attribute 1 name': 'Size', 'Attribute 1 value(s)': size })
  const parent = row('60', 'variable', 'MUG', { 'Attribute 1 name': 'Size', 'Attribute 1 value(s)': 'S, M' })
  return table([parent, variation('61', 'S', '1'), variation('62', 'M', '2')])
}

/** https://experienceleague.adobe.com/en/docs/commerce-admin/systems/data-transfer/data-attributes-product */
export function magentoCsv(changes: Changes): string {
  const {
    price = '8.50',
    before = '10.00',
    qty = '3.0000',
    inStock = '1',
    manageStock = '1',
    backorders = '0',
    online = '1',
    sizes,
  } = changes
  const row = (sku: string, type: unknown, more: Changes = {}) => ({
    ...{ sku, store_view_code: '', attribute_set_code: 'Default', product_type: type, categories: 'Default Category/Home/Kitchen' },
    ...{ product_websites: 'base', name: NAME, description: HTML, short_description: '', product_online: online },
    ...{ visibility: changes.visibility ?? 'Catalog, Search', price: before || price, special_price: before ? price : '' },
    ...{
      special_price_from_date: changes.starts ?? '',
      special_price_to_date: changes.ends ?? '',
      url_key: 'mug',
      meta_title: '',
      meta_description: '',
      base_image: '/mug.jpg',
    },
    ...{
      base_image_label: 'A mug',
      additional_images: '',
      qty,
      allow_backorders: backorders,
      use_config_backorders: '0',
      is_qty_decimal: '0',
    },
    ...{ is_in_stock: inStock, manage_stock: manageStock, use_config_manage_stock: '0', additional_attributes: `manufacturer=${BRAND}` },
    ...{ configurable_variations: '', ...more },
  })
  if (!sizes) return table([row('MUG-1', changes.type ?? 'simple')])
  const hidden = (size: string, units: string) =>
    row(`MUG-${size}`, 'simple', { visibility: 'Not Visible Individually', qty: units, url_key: `mug-${size}` })
  const configurable_variations = 'sku=MUG-S,Size=S|sku=MUG-M,Size=M'
  return table([hidden('S', '1'), hidden('M', '2'), row('MUG', 'configurable', { configurable_variations })])
}

const convert = (shop: string) =>
  `make a catalogue of it first, with \`storefront convert ${shop} products FILE --currency EUR\`, in the currency of its prices`

const EXPORTS: readonly { columns: readonly string[]; what: string; remedy: string }[] = [
  { columns: ['handle', 'variant_price'], what: 'an export of Shopify', remedy: convert('shopify') },
  { columns: ['url_handle', 'title'], what: 'an export of Shopify', remedy: convert('shopify') },
  { columns: ['type', 'published', 'regular_price'], what: 'an export of WooCommerce', remedy: convert('woocommerce') },
  { columns: ['product_type', 'attribute_set_code'], what: 'an export of Magento', remedy: convert('magento') },
  {
    columns: ['id', 'title', 'link', 'availability'],
    what: 'a feed for Google Merchant Center',
    remedy: 'it has neither stock nor categories of the shop: export the products of the shop itself',
  },
]

/** The kind of a file with another shop's export columns, and what to do with it; null for other files. */
export function describeForeignExport(columns: readonly string[]): string | null {
  const found = EXPORTS.find((one) => one.columns.every((column) => columns.includes(column)))
  return found === undefined ? null : `the file is ${found.what}: ${found.remedy}`
}

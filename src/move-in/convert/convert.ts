import { type Conversion, WrongFile } from './conversion.ts'
import { convertMagentoProducts } from './magento-products.ts'
import { convertMedusaCustomers, convertMedusaOrders } from './medusa-orders.ts'
import { convertMedusaProducts } from './medusa-products.ts'
import { convertShopifyCustomers, convertShopifyGuests, convertShopifyOrders } from './shopify-orders.ts'
import { convertShopifyProducts } from './shopify-products.ts'
import { convertWooCommerceCustomers, convertWooCommerceGuests, convertWooCommerceOrders } from './woocommerce-orders.ts'
import { convertWooCommerceProducts } from './woocommerce-products.ts'

export interface ConvertOptions {
  /** The ISO 4217 code. */
  currency?: string | undefined
  encoding?: string | undefined
  passwords?: string | undefined
  variations?: string | undefined
  imagesBelow?: string | undefined
  now: Date
}
type Convert = (file: string, conversion: Conversion, options: ConvertOptions) => AsyncGenerator<string>

const withCurrency =
  (convert: (file: string, conversion: Conversion, options: ConvertOptions & { currency: string }) => AsyncGenerator<string>): Convert =>
  (file, conversion, { currency, ...options }) => {
    if (currency === undefined)
      throw new WrongFile('the currency of the prices is missing: give it with --currency, such as --currency EUR')
    return convert(file, conversion, { currency, ...options })
  }

const CONVERTERS: Readonly<Record<string, Readonly<Record<string, Convert>>>> = {
  shopify: {
    products: withCurrency(convertShopifyProducts),
    customers: convertShopifyCustomers,
    guests: convertShopifyGuests,
    orders: convertShopifyOrders,
  },
  woocommerce: {
    products: withCurrency(convertWooCommerceProducts),
    customers: (file, conversion, { passwords }) => convertWooCommerceCustomers(file, conversion, passwords),
    guests: convertWooCommerceGuests,
    orders: convertWooCommerceOrders,
  },
  medusa: {
    products: withCurrency(convertMedusaProducts),
    customers: (file, conversion, { passwords }) => convertMedusaCustomers(file, conversion, passwords),
    orders: convertMedusaOrders,
  },
  magento: { products: withCurrency(convertMagentoProducts) },
}

export function findConverter(shop: string, what: string): Convert {
  const known = CONVERTERS[shop]
  if (known === undefined)
    throw new WrongFile(`there is no converter for ${shop}; there is one for each of ${Object.keys(CONVERTERS).join(', ')}`)
  return known[what] ?? refuse(`there is no converter for ${what} of ${shop}; it converts ${Object.keys(known).join(', ')}`)
}

function refuse(message: string): never {
  throw new WrongFile(message)
}

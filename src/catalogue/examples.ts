/** Bodies in the OpenAPI document. A test checks each against its schema. */

export const EXAMPLE_NEW_PRODUCT = {
  slug: 'blue-mug',
  sku: 'MUG-BLUE',
  name: 'Blue mug',
  description: 'Stoneware, 300 ml.',
  categories: [['Home', 'Kitchen'], ['Sale']],
  brand: 'Potter & Sons',
  images: [
    { url: 'https://images.example.com/mug-blue.jpg', alt: 'A blue mug on a table', width: 1_200, height: 900 },
    { url: 'https://images.example.com/mug-blue-inside.jpg', alt: 'The mug from above', width: 1_200, height: 900 },
  ],
  group: 'MUG',
  options: { colour: 'blue' },
  attributes: { material: 'stoneware', dishwasher_safe: true, weight_g: 340, colours: ['blue', 'white'] },
  price: { amount: 1_290, currency: 'EUR' },
  compare_at_price: { amount: 1_590, currency: 'EUR' },
  seo: { title: 'Blue stoneware mug', description: 'A mug of 300 ml that the dishwasher cannot harm.' },
  availability_text: 'Ships within two days',
  prices: [{ amount: 1_390, currency: 'USD', compare_at: null }],
  sale_prices: [{ amount: 990, currency: 'EUR', from: '2026-11-27T08:00:00.000Z', until: '2026-12-01T08:00:00.000Z' }],
  translations: { de: { name: 'Blaue Tasse', description: 'Steinzeug, 300 ml.' } },
  stock: 40,
}

const {
  stock: _,
  categories: _categories,
  images,
  seo,
  availability_text,
  translations,
  prices,
  sale_prices,
  ...shown
} = EXAMPLE_NEW_PRODUCT

export const EXAMPLE_NEW_CATEGORY = { name: 'Kitchen', parent_id: '01997a5e-2b11-7d03-9c5f-1a2b3c4d5e6f' }
export const EXAMPLE_CATEGORY_CHANGE = { name: 'Kitchen & dining', position: 0 }
export const EXAMPLE_CATEGORY = {
  id: '01997a5e-2b12-7aa4-8f60-6f5e4d3c2b1a',
  slug: 'kitchen',
  ...EXAMPLE_NEW_CATEGORY,
  position: 2,
  depth: 1,
}

export const EXAMPLE_PRODUCT = {
  id: '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c21',
  ...shown,
  lowest_price_30_days: { amount: 1_490, currency: 'EUR' },
  category: EXAMPLE_CATEGORY.name,
  image_url: images[0]?.url ?? null,
  in_stock: true,
  created_at: '2026-03-01T08:00:00.000Z',
  updated_at: '2026-03-02T10:30:00.000Z',
}

export const EXAMPLE_PLACED_PRODUCTS_CHANGE = { product_ids: [EXAMPLE_PRODUCT.id] }
export const EXAMPLE_PLACED_PRODUCTS = {
  data: [
    {
      ...{ id: EXAMPLE_PRODUCT.id, sku: shown.sku, name: shown.name, image_url: EXAMPLE_PRODUCT.image_url, group: shown.group },
      is_listed: true,
    },
  ],
}

const top = { id: EXAMPLE_NEW_CATEGORY.parent_id, slug: 'home', name: 'Home' }
const { id, slug, name } = EXAMPLE_CATEGORY
const productCategories = [{ id, slug, name, path: [top, { id, slug, name }] }]

export const EXAMPLE_CATEGORIES = { data: [{ ...top, parent_id: null, position: 0, depth: 0 }, EXAMPLE_CATEGORY], is_complete: true }
export const EXAMPLE_PRODUCT_DETAILS = { ...EXAMPLE_PRODUCT, categories: productCategories, images, seo, availability_text }
const publication = { status: 'active' as const, published_at: '2026-03-01T08:00:00.000Z', unpublished_at: null }
export const EXAMPLE_EDITED_PRODUCT = { ...EXAMPLE_PRODUCT_DETAILS, translations, prices, sale_prices, ...publication, archived_at: null }
export const EXAMPLE_ADMIN_PRODUCT = {
  ...{ id: EXAMPLE_PRODUCT.id, sku: shown.sku, name: shown.name, category: EXAMPLE_PRODUCT.category, image_url: EXAMPLE_PRODUCT.image_url },
  ...{ group: shown.group, options: shown.options, price: shown.price, state: 'withheld', ...publication, status: 'draft' },
  ...{ archived_at: null, updated_at: EXAMPLE_PRODUCT.updated_at },
}
export const EXAMPLE_PRODUCT_PAGE = { data: [EXAMPLE_PRODUCT], has_more: false, next_cursor: null }
export const EXAMPLE_MOVED_PRODUCT = { moved_to: EXAMPLE_PRODUCT.slug }
export const EXAMPLE_GROUP_CHANGE = {
  description: 'Stoneware, 350 ml.',
  attributes: { weight_g: 360 },
  translations: { de: { name: null } },
}
export const EXAMPLE_GROUP = {
  ...{ group: shown.group, name: null, description: shown.description, brand: shown.brand, images, attributes: shown.attributes },
  ...{ seo, availability_text, translations: { de: { description: translations.de.description } } },
  variants: [
    { id: EXAMPLE_PRODUCT.id, sku: shown.sku, name: shown.name, options: shown.options, overrides: ['images', 'attributes.weight_g'] },
  ],
}
export const EXAMPLE_PRODUCT_CHANGE = { price: { amount: 990, currency: 'EUR' } }

export const EXAMPLE_FACETS = {
  categories: [{ category: 'Kitchen', slug: 'kitchen', count: 12 }],
  brands: [{ brand: 'Potter & Sons', count: 9 }],
  price_ranges: [{ currency: 'EUR', min: 1_000, max: 2_500, count: 12 }],
  attributes: [
    { name: 'material', count: 12, values: [{ value: 'stoneware', count: 12 }], range: null },
    { name: 'weight_g', count: 10, values: [], range: { min: 250, max: 480 } },
  ],
  exact: true,
}

export const EXAMPLE_PRICE = {
  price: { amount: 1_290, currency: 'EUR' },
  compare_at_price: { amount: 1_590, currency: 'EUR' },
  since: '2026-03-02T10:30:00.000Z',
}
export const EXAMPLE_PRICE_PAGE = { data: [EXAMPLE_PRICE], has_more: false, next_cursor: null, currency: 'EUR', currencies: ['EUR', 'USD'] }

export const EXAMPLE_STOCK = { product_id: EXAMPLE_PRODUCT.id, available: 40, version: 3 }
export const EXAMPLE_STOCK_COUNT = { stock: 40, expected: 38, reference: 'count-2026-03', reason: 'Monthly count' }
export const EXAMPLE_NEW_STOCK_ADJUSTMENT = { delta: 24, reference: 'delivery-4711', reason: 'Delivery' }

export const EXAMPLE_STOCK_ADJUSTMENT = {
  product_id: EXAMPLE_PRODUCT.id,
  version: 4,
  kind: 'adjustment',
  before: 16,
  after: 40,
  ...EXAMPLE_NEW_STOCK_ADJUSTMENT,
  actor: { type: 'admin', id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b12' },
  created_at: '2026-03-02T10:30:00.000Z',
}

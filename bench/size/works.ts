import { ORDER_STATUSES } from '../../src/orders/order-status.ts'
import { customerId, LARGE_SHOP, productId } from '../../test/large-shop.ts'
import { PASSWORD } from '../rig/shop.ts'

/** A request for both shops. `{n}` becomes a number that is new to both. */
export interface Call {
  method?: string
  path: string
  body?: object
  as?: 'customer' | 'operator'
  /** Requests the last page, or one hundreds of pages away. */
  isDeep?: boolean
}

export interface Work {
  name: string
  calls: Call[]
  /**
   * The expected growth. `constant` is at most twice the time of the small shop. `bounded` means that the small shop is
   * below the bound. `linear` means a time for each order.
   */
  shouldBe: 'constant' | 'bounded' | 'linear'
  /** Whether it is requested only once, because the answer is cached. */
  isOnce?: boolean
}

const { category, brand, word, attribute, currency, group, customers_with } = LARGE_SHOP
const SORTS = ['created_at', '-created_at', 'name', '-name', 'price', '-price']
const OLD = new Date(Date.now() - 100 * 86_400_000).toISOString()
const RECENT = new Date(Date.now() - 86_400_000).toISOString()
const EMAIL = 'customer7@example.com'

const get = (paths: readonly string[], more: Partial<Call> = {}): Call[] => paths.map((path) => ({ path, ...more }))
const products = (queries: readonly string[], more: Partial<Call> = {}) =>
  get(
    queries.map((query) => `/products?limit=20&${query}`),
    more,
  )
const orders = (queries: readonly string[], more: Partial<Call> = {}) =>
  get(
    queries.map((query) => `/admin/orders?limit=20&${query}`),
    { as: 'operator', ...more },
  )
const operator = (paths: readonly string[], more: Partial<Call> = {}) => get(paths, { as: 'operator', ...more })
const sortedBy = (query: string, sorts: readonly string[]) => sorts.map((sort) => `${query}&sort=${sort}`)
const attr = (text: string) => `attr=${encodeURIComponent(text)}`
const product = (number: number) => ({ product_id: productId(number), quantity: 1 })

export const WORKS: readonly Work[] = [
  { name: 'list, three sorts and their reverses', calls: products(SORTS.map((sort) => `sort=${sort}`)), shouldBe: 'constant' },
  {
    name: 'the same, deep pages',
    calls: products(
      SORTS.map((sort) => `sort=${sort}`),
      { isDeep: true },
    ),
    shouldBe: 'constant',
  },
  {
    name: 'category, largest and smallest, by date and price',
    calls: products([category.most, category.few].flatMap((name) => sortedBy(`category=${name}`, ['created_at', 'price']))),
    shouldBe: 'constant',
  },
  {
    name: 'price range, wide and narrow, three sorts',
    calls: products(
      ['min_price=500', 'min_price=9900', 'max_price=110'].flatMap((range) => sortedBy(range, ['created_at', 'name', 'price'])),
    ),
    shouldBe: 'constant',
  },
  {
    name: 'brand, most and few, three sorts',
    calls: products([brand.most, brand.few].flatMap((name) => sortedBy(`brand=${name}`, ['created_at', 'name', 'price']))),
    shouldBe: 'constant',
  },
  {
    name: 'attribute; two attributes by price',
    calls: products([...[attribute.most, attribute.few].map(attr), `${attr(attribute.most)}&${attr(attribute.number)}&sort=price`]),
    shouldBe: 'constant',
  },
  {
    name: 'stock, group, ids, language, unknown brand or attribute',
    calls: products([
      ...['in_stock=true', 'in_stock=false', `group=${group}`, `ids=${productId(11)},${productId(1)}`, 'lang=de', 'brand=None'],
      attr('material=none'),
    ]),
    shouldBe: 'constant',
  },
  {
    name: 'variants as one, by date and price',
    calls: products(sortedBy('collapse=group', ['created_at', 'price'])),
    shouldBe: 'constant',
  },
  {
    name: 'currency that all, few or no products have',
    calls: products([...currency.most, ...currency.few, currency.none].map((code) => `currency=${code}`)),
    shouldBe: 'constant',
  },
  {
    name: '`include=count`, one and two conditions',
    calls: products([
      ...['include=count', 'include=count&in_stock=false&max_price=110&sort=name', `include=count&in_stock=true&brand=${brand.most}`],
      'include=count&currency=GBP&max_price=500',
    ]),
    shouldBe: 'bounded',
  },
  {
    name: 'facets: all; category; word; attribute; currency; of attributes',
    calls: get(
      ['', `category=${category.most}`, `q=${word.most}`, attr(attribute.most), 'currency=GBP', 'include=attributes'].map(
        (query) => `/products/facets?${query}`,
      ),
    ),
    shouldBe: 'bounded',
  },
  {
    name: 'search, one word of four frequencies',
    calls: products([word.most, word.half, 'words3', word.few].map((q) => `q=${q}`)),
    shouldBe: 'bounded',
  },
  {
    name: 'search, four words that most products have',
    calls: products(['common lamp product shop', 'common even lamp words3'].map((q) => `q=${encodeURIComponent(q)}`)),
    shouldBe: 'bounded',
  },
  { name: 'search, misspelt; none; prefix', calls: products(['comon', word.none, 'com'].map((q) => `q=${q}`)), shouldBe: 'constant' },
  { name: 'search for a SKU', calls: products(['q=SKU-500']), shouldBe: 'constant' },
  {
    name: 'product by id, by slug, for operators; prices; adjustments',
    calls: [
      ...get([`/products/${productId(11)}`, `/products/by-slug/common-lamp-odd-11`]),
      ...operator(['', '/stock', '/prices?currency=EUR', '/stock/adjustments'].map((part) => `/admin/products/${productId(11)}${part}`)),
    ],
    shouldBe: 'constant',
  },
  { name: 'categories', calls: get(['/categories']), shouldBe: 'constant' },
  {
    name: 'order of 3 lines; its quote',
    calls: ['/orders', '/orders/quote'].map((path) => ({
      method: 'POST',
      path,
      body: { items: [12, 13, 14].map(product) },
      as: 'customer',
    })),
    shouldBe: 'constant',
  },
  {
    name: 'change price, name; create product',
    calls: [
      { method: 'PATCH', path: `/admin/products/${productId(11)}`, body: { price: { amount: '{n}', currency: 'EUR' } }, as: 'operator' },
      { method: 'PATCH', path: `/admin/products/${productId(11)}`, body: { name: 'Common lamp {n}' }, as: 'operator' },
      {
        method: 'POST',
        path: '/admin/products',
        body: { sku: 'NEW-{n}', name: 'A new lamp', category: 'Common', price: { amount: 1_250, currency: 'EUR' }, stock: 10 },
        as: 'operator',
      },
    ],
    shouldBe: 'constant',
  },
  {
    name: 'register; log in',
    calls: [
      { method: 'POST', path: '/auth/register', body: { email: 'new-{n}@shop.example', password: PASSWORD } },
      { method: 'POST', path: '/auth/login', body: { email: 'customer0@example.com', password: PASSWORD } },
    ],
    shouldBe: 'constant',
  },
  {
    name: 'own orders of who has most, first, deep, by status',
    calls: [
      ...get(['/orders?limit=20', '/orders?limit=20&status=delivered', '/orders?limit=20&status=cancelled'], { as: 'customer' }),
      ...get(['/orders?limit=20'], { as: 'customer', isDeep: true }),
    ],
    shouldBe: 'constant',
  },
  { name: 'export of an account, for each order', calls: get(['/me/export'], { as: 'customer' }), shouldBe: 'linear', isOnce: true },
  {
    name: "operators' orders by filters, and deep",
    calls: [
      ...orders([
        '',
        `user_id=${customers_with.few}`,
        `user_id=${customerId(0)}`,
        `email=${EMAIL}`,
        'email=customer0@example.com',
        'number=100500',
      ]),
      ...orders([`product_id=${productId(11)}`, `product_id=${productId(500)}`, `from=${RECENT}`, `to=${OLD}`]),
      ...orders([''], { isDeep: true }),
    ],
    shouldBe: 'constant',
  },
  {
    name: "operators' orders by status, also in an old period",
    calls: orders(ORDER_STATUSES.flatMap((status) => [`status=${status}`, `status=${status}&to=${OLD}`])),
    shouldBe: 'constant',
  },
  {
    name: 'customers by address, id, order; deep',
    calls: [
      ...operator(
        ['', 'email=customer7@example.com', 'email=customer', 'email=none', 'number=100500'].map((query) => `/admin/customers?${query}`),
      ),
      ...operator([`/admin/customers?id=${customers_with.few}`, `/admin/customers/${customerId(0)}`]),
      ...operator(['/admin/customers?limit=20'], { isDeep: true }),
    ],
    shouldBe: 'constant',
  },
  {
    name: 'mails by filters; deep',
    calls: [
      ...operator(
        ['', 'status=sent', 'status=queued', `from=${RECENT}`, `to=${OLD}`, 'order=100500'].map((query) => `/admin/mails?${query}`),
      ),
      ...operator(['/admin/mails?limit=20'], { isDeep: true }),
    ],
    shouldBe: 'constant',
  },
  {
    name: 'mails of one customer, of few and of most',
    calls: operator([`email=${EMAIL}`, 'email=customer0@example.com'].map((query) => `/admin/mails?${query}`)),
    shouldBe: 'constant',
  },
  {
    name: 'activities, pipeline, audits, keys, webhooks',
    calls: operator([
      ...['/admin/activities', '/admin/activities?action=createOperator', '/admin/pipeline', '/admin/audits', '/admin/api-keys'],
      '/admin/webhooks',
    ]),
    shouldBe: 'constant',
  },
  { name: 'operators', calls: operator(['/admin/operators']), shouldBe: 'constant' },
  {
    name: 'figures of an hour, a day and a week, and low stock',
    calls: operator(['hour', 'day', 'week'].map((range) => `/admin/figures?range=${range}`)),
    shouldBe: 'constant',
    isOnce: true,
  },
]

import { type Static, Type } from 'typebox'
import { MoneySchema } from '../money.ts'

const MINUTES = [0, 1, 2]
const EUR = 'EUR'

/** Example of the OpenAPI document. A test checks it against its schema. */
const EXAMPLE_FIGURES = {
  range: 'hour',
  time_zone: 'Europe/Vienna',
  generated_at: '2026-03-04T18:03:00.120Z',
  filled_from: null,
  step_seconds: 60,
  from: '2026-03-04T18:00:00.000Z',
  to: '2026-03-04T18:03:00.000Z',
  times: MINUTES.map((minute) => `2026-03-04T18:0${minute}:00.000Z`),
  sales: [
    {
      currency: EUR,
      ...{ orders: [2, 0, 1], revenue: [5_160, 0, 1_290], net_revenue: [3_870, 0, 1_290] },
      ...{ cancelled: [1, 0, 0], returned: [0, 0, 0] },
    },
  ],
  best_sellers: [
    {
      product_id: '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c21',
      sku: 'MUG-BLUE',
      name: 'Blue mug',
      image_url: null,
      quantity: 5,
      revenue: [{ amount: 6_450, currency: EUR }],
    },
  ],
  low_stock: [{ product_id: '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c22', sku: 'LAMP-1', name: 'Table lamp', available: 3, sold_7_days: 4 }],
  totals: {
    ...{ orders: 3, cancelled: 1, returned: 0 },
    ...{ revenue: [{ amount: 6_450, currency: EUR }], net_revenue: [{ amount: 5_160, currency: EUR }] },
  },
  before: {
    from: '2026-03-04T17:57:00.000Z',
    to: '2026-03-04T18:00:00.000Z',
    sales: [
      {
        currency: EUR,
        ...{ orders: [0, 1, 0], revenue: [0, 1_290, 0], net_revenue: [0, 1_290, 0] },
        ...{ cancelled: [0, 0, 0], returned: [0, 0, 0] },
      },
    ],
    totals: {
      ...{ orders: 1, cancelled: 0, returned: 0 },
      ...{ revenue: [{ amount: 1_290, currency: EUR }], net_revenue: [{ amount: 1_290, currency: EUR }] },
    },
  },
}

/** Sums stop at the largest exact JSON number. */
const AT_MOST = `at most ${Number.MAX_SAFE_INTEGER}`

const Count = Type.Integer({ minimum: 0 })
const Counts = (description: string) => Type.Array(Count, { description })
const Time = (description: string) => Type.String({ format: 'date-time', description })
const NullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

const RANGES = ['hour', 'day', 'week', 'today', 'yesterday', '7_days', '30_days'] as const

export const RangeQuery = Type.Object(
  {
    range: Type.Optional(
      Type.Enum(RANGES, {
        default: 'hour',
        description:
          '`hour`, `day` and `week` are the last 60 minutes, 24 hours and 7 × 24 hours. The others are days of the shop, which begin at midnight: `7_days` and `30_days` include today.',
      }),
    ),
  },
  { additionalProperties: false },
)
export type Range = NonNullable<Static<typeof RangeQuery>['range']>

const NET_REVENUE =
  'What the same orders are worth now: their current totals, in which adjustments, added lines and cancelled units count, minus returned units and minus refunds above the amount owed back. ' +
  'A return and its refund are subtracted only once. Cancelled, returned and fully refunded orders count as 0. A partial refund without an amount is not subtracted.'

const SalesSeries = Type.Object(
  {
    currency: MoneySchema.properties.currency,
    orders: Counts('Orders placed in each step. Orders that were imported from another shop do not count.'),
    revenue: Counts(
      `The totals of these orders when they were placed, in minor units. They include orders that were cancelled afterwards. A value is ${AT_MOST}.`,
    ),
    net_revenue: Counts(`${NET_REVENUE} An order counts in the step in which it was placed, not when it changed. A value is ${AT_MOST}.`),
    cancelled: Counts('How many of these orders are cancelled now.'),
    returned: Counts('How many of these orders are completely returned now.'),
  },
  { title: 'SalesSeries' },
)

const BestSeller = Type.Object(
  {
    product_id: Type.String({ format: 'uuid' }),
    sku: NullableText('Null for a product that no longer exists.'),
    name: NullableText('Null for a product that no longer exists.'),
    image_url: NullableText('The first image of the product.'),
    quantity: Count,
    revenue: Type.Array(MoneySchema, { description: `One amount for each currency, ${AT_MOST}.` }),
  },
  { title: 'BestSeller' },
)

const LowStock = Type.Object(
  {
    product_id: Type.String({ format: 'uuid' }),
    sku: Type.String(),
    name: Type.String(),
    available: Count,
    sold_7_days: Type.Integer({ minimum: 0, description: 'Units that were ordered in the last seven days.' }),
  },
  { title: 'LowStock' },
)

const Sales = Type.Array(SalesSeries, { description: 'One entry for each currency.' })

const Totals = Type.Object(
  {
    orders: Count,
    cancelled: Type.Integer({ minimum: 0, description: 'How many of these orders are cancelled now.' }),
    returned: Type.Integer({ minimum: 0, description: 'How many of these orders are completely returned now.' }),
    revenue: Type.Array(MoneySchema, { description: `One amount for each currency, ${AT_MOST}.` }),
    net_revenue: Type.Array(MoneySchema, { description: NET_REVENUE }),
  },
  { title: 'FigureTotals', description: 'The sums of the series.' },
)

const MORE = 'Counted up to 1000: 1000 means 1000 or more.'

const Waiting = Type.Object(
  {
    count: Type.Integer({ minimum: 0, description: MORE }),
    oldest_at: NullableText('When the oldest of them was placed. Null if there is none.'),
  },
  { title: 'WaitingOrders' },
)

export const FiguresSchema = Type.Object(
  {
    range: Type.Enum(RANGES),
    time_zone: Type.String({ description: "The shop's time zone (IANA name), in which its days begin at midnight." }),
    generated_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
      description: 'When the figures were collected, which happens once a minute. Null before the first time.',
    }),
    filled_from: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
      description:
        'Orders placed before this time are not counted yet: the store is still adding them, newest first, for example after an upgrade. Null if the range and the period before it are complete.',
    }),
    step_seconds: Type.Integer({
      description:
        '60 for `hour`, 600 for `day` and `today`, 3600 for `week` and `yesterday`, 86400 for `7_days` and `30_days`, in which a step is a day of the shop and may have 23 or 25 hours.',
    }),
    from: Time('The beginning of the first step.'),
    to: Time('The end of the last step. The last step is still running, except for the range `yesterday`.'),
    times: Type.Array(Type.String({ format: 'date-time' }), {
      description: 'The beginning of each step, oldest first. Every series has one value for each step.',
    }),
    sales: Sales,
    best_sellers: Type.Array(BestSeller, {
      description: 'The ten products of which most units were ordered in the range. Its beginning is rounded down to ten minutes.',
    }),
    low_stock: Type.Array(LowStock, { description: 'The ten products with the least stock now, among those whose stock is tracked.' }),
    totals: Totals,
    before: Type.Object(
      { from: Time('The beginning of the period.'), to: Time('The end of the period.'), sales: Sales, totals: Totals },
      {
        title: 'FiguresBefore',
        description:
          'The same figures for the period before, which has the same length. It ends at the same point as the figures collected so far, in whole minutes. Each series has one value for each step.',
      },
    ),
  },
  { title: 'Figures', examples: [EXAMPLE_FIGURES] },
)
export type Figures = Static<typeof FiguresSchema>

const EXAMPLE_TO_DO = {
  to_confirm: { count: 1, oldest_at: '2026-03-04T18:02:10.000Z' },
  to_ship: { count: 2, oldest_at: '2026-03-02T09:12:44.000Z' },
  unpaid: { count: 0, oldest_at: null },
}

export const OrdersToDoSchema = Type.Object(
  { to_confirm: Waiting, to_ship: Waiting, unpaid: Waiting },
  {
    title: 'OrdersToDo',
    description: 'Orders that are pending or confirmed now, and those of them without a payment.',
    examples: [EXAMPLE_TO_DO],
  },
)
export type OrdersToDo = Static<typeof OrdersToDoSchema>

export const MailsToDoSchema = Type.Object(
  { failed: Type.Integer({ minimum: 0, description: MORE }) },
  { title: 'MailsToDo', description: 'Mails about orders that have failed.', examples: [{ failed: 0 }] },
)
export type MailsToDo = Static<typeof MailsToDoSchema>

export const StockToDoSchema = Type.Object(
  { sold_out: Type.Integer({ minimum: 0, description: MORE }) },
  { title: 'StockToDo', description: 'Products that are sold out.', examples: [{ sold_out: 3 }] },
)
export type StockToDo = Static<typeof StockToDoSchema>

import { type Static, Type } from 'typebox'
import { MoneySchema } from '../money.ts'

const MINUTES = [0, 1, 2]
const EUR = 'EUR'

/** A body that the OpenAPI document shows. A test checks it against its schema. */
const EXAMPLE_FIGURES = {
  range: 'hour',
  time_zone: 'Europe/Vienna',
  generated_at: '2026-03-04T18:03:00.120Z',
  step_seconds: 60,
  from: '2026-03-04T18:00:00.000Z',
  to: '2026-03-04T18:03:00.000Z',
  times: MINUTES.map((minute) => `2026-03-04T18:0${minute}:00.000Z`),
  sales: [{ currency: EUR, orders: [2, 0, 1], revenue: [5_160, 0, 1_290] }],
  best_sellers: [
    {
      product_id: '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c21',
      sku: 'MUG-BLUE',
      name: 'Blue mug',
      quantity: 5,
      revenue: [{ amount: 6_450, currency: EUR }],
    },
  ],
  low_stock: [{ product_id: '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c22', sku: 'LAMP-1', name: 'Table lamp', available: 3 }],
  totals: { orders: 3, revenue: [{ amount: 6_450, currency: EUR }] },
}

/** Sums end where JSON numbers lose units. */
const AT_MOST = `at most ${Number.MAX_SAFE_INTEGER}`

const Count = Type.Integer({ minimum: 0 })
const Counts = (description: string) => Type.Array(Count, { description })
const Time = (description: string) => Type.String({ format: 'date-time', description })
const NullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

const RANGES = ['hour', 'day', 'week', 'today'] as const

export const RangeQuery = Type.Object(
  {
    range: Type.Optional(
      Type.Enum(RANGES, {
        default: 'hour',
        description: "The last hour, 24 hours or seven days, or the shop's day, which began at midnight.",
      }),
    ),
  },
  { additionalProperties: false },
)
export type Range = NonNullable<Static<typeof RangeQuery>['range']>

const SalesSeries = Type.Object(
  {
    currency: MoneySchema.properties.currency,
    orders: Counts('Orders placed in each step.'),
    revenue: Counts(`Their totals in each step, in minor units of the currency, including orders that were cancelled later; ${AT_MOST}.`),
  },
  { title: 'SalesSeries' },
)

const BestSeller = Type.Object(
  {
    product_id: Type.String({ format: 'uuid' }),
    sku: NullableText('Null for a product that no longer exists.'),
    name: NullableText('Null for a product that no longer exists.'),
    quantity: Count,
    revenue: Type.Array(MoneySchema, { description: `One amount for each currency, ${AT_MOST}.` }),
  },
  { title: 'BestSeller' },
)

const LowStock = Type.Object(
  { product_id: Type.String({ format: 'uuid' }), sku: Type.String(), name: Type.String(), available: Count },
  { title: 'LowStock' },
)

export const FiguresSchema = Type.Object(
  {
    range: Type.Enum(RANGES),
    time_zone: Type.String({ description: "The shop's time zone, by its name in the IANA database: its day is `today`." }),
    generated_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
      description: 'When the figures were collected, which happens once a minute. Null before the first time.',
    }),
    step_seconds: Type.Integer({ description: '60 for an hour, 600 for a day or today, 3600 for a week.' }),
    from: Time('Begin of the first step.'),
    to: Time('End of the last step, which is not over yet.'),
    times: Type.Array(Type.String({ format: 'date-time' }), {
      description: 'Begin of each step, oldest first. Every series has a value for each.',
    }),
    sales: Type.Array(SalesSeries, { description: 'By currency.' }),
    best_sellers: Type.Array(BestSeller, {
      description: 'The ten products with the greatest quantity in orders of the range, from a full ten minutes on.',
    }),
    low_stock: Type.Array(LowStock, { description: 'The ten products with the least stock, of those whose stock is tracked. Of now.' }),
    totals: Type.Object(
      {
        orders: Count,
        revenue: Type.Array(MoneySchema, { description: `One amount for each currency, ${AT_MOST}.` }),
      },
      { title: 'FigureTotals', description: 'The sums of the series.' },
    ),
  },
  { title: 'Figures', examples: [EXAMPLE_FIGURES] },
)
export type Figures = Static<typeof FiguresSchema>

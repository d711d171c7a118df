import { type TObject, type TSchema, Type } from 'typebox'
import { openSchema } from '../http/open-schema.ts'
import { MoneySchema } from '../money.ts'
import { CATALOGUE_EVENT_TYPES, type CatalogueEventType, RECORDED_TYPES } from './catalogue-event.ts'
import { EventCategoriesSchema } from './categories/category.ts'
import { EditedProductSchema } from './product-details.ts'

const Money = openSchema(MoneySchema)
const UUID_PATTERN = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
const nullable = <T extends TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description })

/**
 * The JSON Schema (draft-07) of each catalogue event, by event type. Unknown properties are allowed, so validating
 * consumers accept the next release's events. Pure.
 */
export function catalogueEventSchemas(): Record<string, TObject> {
  return Object.fromEntries(CATALOGUE_EVENT_TYPES.map((type) => [type, eventSchema(type)]))
}

/** The CloudEvents envelope, JSON format, with the extensions sequence, partitioning and distributed tracing. */
function eventSchema(type: CatalogueEventType): TObject {
  const isOfStock = (RECORDED_TYPES.stock as readonly string[]).includes(type.slice('storefront.'.length))
  return Type.Object(
    {
      specversion: Type.Literal('1.0'),
      id: Type.String({
        pattern: `^${UUID_PATTERN}${isOfStock ? '\\.stock' : ''}\\.[1-9][0-9]*$`,
        description: `\`<product id>${isOfStock ? '.stock' : ''}.<version>\`. The same at each delivery: dedupe by it.`,
      }),
      source: Type.Literal('/products'),
      type: Type.Literal(type),
      subject: Type.String({ format: 'uuid', description: "The product's id." }),
      time: Type.String({ format: 'date-time', description: 'When the change was made, UTC.' }),
      datacontenttype: Type.Literal('application/json'),
      sequence: Type.String({
        pattern: '^[0-9]{10}$',
        description: `The version with leading zeros; sorts as text. ${isOfStock ? 'Versions of stock' : 'Versions of a product and its price'} are counted by themselves, and some are no event.`,
      }),
      partitionkey: Type.String({ format: 'uuid', description: "The product's id: events of one product come in order." }),
      traceparent: Type.Optional(
        Type.String({
          pattern: '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$',
          description: 'W3C Trace Context of the request that made the change.',
        }),
      ),
      data: dataSchema(type, isOfStock),
    },
    { $id: `urn:storefront:event:${type}`, title: type },
  )
}

function dataSchema(type: CatalogueEventType, isOfStock: boolean): TObject {
  const shared = { product_id: Type.String({ format: 'uuid' }), sku: Type.String() }
  if (isOfStock) {
    const level = Type.Integer({ minimum: 0 })
    return Type.Object({
      ...shared,
      available: type === 'storefront.stock.depleted' ? Type.Literal(0) : nullable(level, 'Units; null: not tracked.'),
      previous_available: nullable(level, 'Units before; null: not tracked, or unknown.'),
    })
  }
  if (type === 'storefront.price.changed') {
    return Type.Object({
      ...shared,
      price: nullable(Money, 'Null if the product is no longer sold in the currency of `previous_price`.'),
      previous_price: nullable(
        Money,
        'The price before the change, in the same currency. Null if the product was not sold in that currency before.',
      ),
      compare_at_price: nullable(Money, 'The price before a reduction: above `price`.'),
      previous_compare_at_price: nullable(Money),
    })
  }
  return Type.Object({ product: productSchema(type) })
}

/** The whole product after the change, like its page, without parts that change with stock or time. */
function productSchema(type: CatalogueEventType): TObject {
  const {
    in_stock: _stock,
    updated_at: _updated,
    lowest_price_30_days: _lowest,
    attributes,
    translations,
    prices,
    sale_prices,
    status: _status,
    published_at,
    unpublished_at,
    archived_at: _archived,
    ...shown
  } = EditedProductSchema.properties
  const time = Type.String({ format: 'date-time' })
  const archived = { 'storefront.product.archived': time, 'storefront.product.restored': Type.Null() } as Record<string, TSchema>
  return openSchema(
    Type.Object({
      ...shown,
      categories: EventCategoriesSchema,
      attributes: attributes as TSchema,
      // Earlier releases' events have none of these.
      translations: Type.Optional(translations),
      prices: Type.Optional(prices),
      sale_prices: Type.Optional({
        ...sale_prices,
        description:
          'The amounts of the product during its sales, ordered by currency and time. `price`, `compare_at_price` and `prices` are those that customers pay at the time of the event.',
      }),
      status: Type.Optional(nullable(Type.Literal('draft'), 'Null if it is active.')),
      published_at: Type.Optional(published_at),
      unpublished_at: Type.Optional(unpublished_at),
      archived_at:
        archived[type] ??
        nullable(time, 'Null while the product is in the shop. Also set for a draft, before `published_at` and after `unpublished_at`.'),
    }),
  )
}

import type { TObject } from 'typebox'
import { catalogueEventSchemas } from '../catalogue/catalogue-event-schemas.ts'
import { orderEventSchemas } from '../orders/event-schemas.ts'

const JSON_SCHEMA = 'http://json-schema.org/draft-07/schema#'

const NATS_HEADERS = {
  type: 'object',
  required: ['Nats-Msg-Id'],
  properties: {
    'Nats-Msg-Id': {
      type: 'string',
      description: "The event's `id`; with `#` and a number when an earlier message of the event was deleted.",
    },
    'Content-Encoding': {
      const: 'zstd',
      description: 'The payload is compressed (RFC 8878), as that of an event above 64 KiB. Else absent.',
    },
    'Storefront-Position': { type: 'string', description: "The store's own; may change or be absent." },
  },
}

/** By file name: a JSON Schema for each event, and an AsyncAPI document of all events. */
export function eventFiles(): Record<string, object> {
  const schemas = Object.entries({ ...orderEventSchemas(), ...catalogueEventSchemas() }).map(([type, schema]) => [
    `schemas/${shortName(type)}.schema.json`,
    { $schema: JSON_SCHEMA, ...schema },
  ])
  return { ...Object.fromEntries(schemas), 'asyncapi.json': eventDocument() }
}

/** The AsyncAPI 3.0 document of all events. */
export function eventDocument(): object {
  const [orders, catalogue] = [Object.keys(orderEventSchemas()), Object.keys(catalogueEventSchemas())]
  const schemas = Object.entries({ ...orderEventSchemas(), ...catalogueEventSchemas() })
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Storefront events',
      version: '1.0.0',
      description:
        'Every change of an order, a product, a price or a stock level gives one event. Delivery is at least once; dedupe by `id`. Events of one order, and of one product, come in order.',
    },
    defaultContentType: 'application/cloudevents+json',
    servers: {
      nats: {
        host: '{host}',
        protocol: 'nats',
        description:
          'NATS with JetStream, when the store runs with `NATS_URL`. Otherwise the topic is a table in the database of the store.',
        variables: { host: { default: '127.0.0.1:4222', description: 'Host and port of `NATS_URL`.' } },
      },
    },
    channels: {
      orders: {
        address: 'orders.{order_id}.{version}',
        title: 'The notification topic',
        description:
          'The JetStream stream `ORDERS`, with one message for each subject. A payload may be compressed: see `Content-Encoding`.',
        servers: [{ $ref: '#/servers/nats' }],
        parameters: {
          order_id: { description: "The order's id.", location: '$message.payload#/subject' },
          version: { description: 'The number of the change, counted from 1.', location: '$message.payload#/data/order/version' },
        },
        messages: messagesOf(orders),
      },
      catalogue: {
        address: 'catalogue.{event_id}',
        title: 'The partition of the catalogue',
        description:
          'The JetStream stream `CATALOGUE`, with one message for each subject. An import of a million products never delays orders.',
        servers: [{ $ref: '#/servers/nats' }],
        parameters: {
          event_id: {
            description: '`<product id>.<version>`, or `<product id>.stock.<version>`: versions of stock are counted by themselves.',
            location: '$message.payload#/id',
          },
        },
        messages: messagesOf(catalogue),
      },
    },
    operations: {
      publishOrderEvent: { action: 'send', channel: { $ref: '#/channels/orders' }, summary: 'Tells that an order was made or changed.' },
      publishCatalogueEvent: {
        action: 'send',
        channel: { $ref: '#/channels/catalogue' },
        summary: 'Tells that a product, its price or its stock level has changed.',
      },
    },
    components: {
      messages: Object.fromEntries(schemas.map(([type]) => [shortName(type), messageOf(type)])),
      schemas: {
        ...namedSchemas(schemas.map(([type, schema]) => [shortName(type), withoutId(schema)])),
        'nats-headers': NATS_HEADERS,
      },
    },
  }
}

function messagesOf(types: readonly string[]): object {
  return Object.fromEntries(types.map((type) => [shortName(type), { $ref: `#/components/messages/${shortName(type)}` }]))
}

function messageOf(type: string): object {
  return {
    name: type,
    title: titleOf(type),
    contentType: 'application/cloudevents+json',
    headers: { $ref: '#/components/schemas/nats-headers' },
    payload: { $ref: `#/components/schemas/${shortName(type)}` },
  }
}

/** `storefront.order.created` → `An order was created`. */
function titleOf(type: string): string {
  const [, subject = '', change = ''] = type.split('.')
  const subjects: Record<string, string> = { order: 'An order was', product: 'A product was', price: 'A price was', stock: 'Stock was' }
  return `${subjects[subject]} ${change.replace('_', ' ')}`
}

type Schema = Record<string, unknown>

/**
 * The named types. The name is the type's title, or the property and its parent, or the whole path if schemas share
 * that name.
 */
function namedSchemas(roots: readonly (readonly [string, Schema])[]): Record<string, Schema> {
  const contents = new Map<string, Set<string>>()
  for (const [root, schema] of roots)
    mapParts(schema, [root], function collect(part, path): Schema {
      const name = shortNameOf(part, path)
      if (isNamed(part)) contents.set(name, (contents.get(name) ?? new Set()).add(JSON.stringify(part)))
      return mapParts(part, path, collect)
    })
  const named = new Map<string, Schema>(roots)
  const names = new Map<string, string>()
  for (const [root, schema] of roots) {
    const whole = mapParts(schema, [root], function extract(part, path): Schema {
      const inner = mapParts(part, path, extract)
      if (!isNamed(part)) return inner
      const content = JSON.stringify(part)
      const short = shortNameOf(part, path)
      const name = names.get(content) ?? (contents.get(short)?.size === 1 ? short : path.join('-'))
      names.set(content, name)
      named.set(name, inner)
      return { $ref: `#/components/schemas/${name}` }
    })
    named.set(root, whole)
  }
  return Object.fromEntries(named)
}

function isNamed(schema: Schema): boolean {
  return 'properties' in schema || 'enum' in schema
}

function shortNameOf({ title }: Schema, path: readonly string[]): string {
  return typeof title === 'string' ? title : path.slice(-2).join('-')
}

function mapParts(schema: Schema, path: readonly string[], map: (part: Schema, path: readonly string[]) => Schema): Schema {
  const mapValues = (parts: object, toPath: (key: string) => string) =>
    Object.fromEntries(Object.entries(parts).map(([key, part]) => [key, map(part, [...path, toPath(key)])]))
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => {
      if (keyword === 'properties') return [keyword, mapValues(value as object, (key) => key.replaceAll('_', '-'))]
      if (keyword === 'patternProperties') return [keyword, mapValues(value as object, () => `${path.at(-1)}-value`)]
      if (keyword === 'items') return [keyword, map(value as Schema, [...path, `${path.at(-1)}-item`])]
      if (keyword === 'anyOf') return [keyword, (value as Schema[]).map((part) => map(part, path))]
      return [keyword, value]
    }),
  )
}

/** Removes `$id`. Inside the document a schema is identified by its place. */
function withoutId({ $id: _, ...schema }: TObject & { $id?: string }): Schema {
  return schema as Schema
}

/** Turns `storefront.order.created` into `order-created`. */
function shortName(type: string): string {
  return type.replace('storefront.', '').replaceAll('.', '-')
}

import type { TObject } from 'typebox'
import { orderEventSchemas } from './event-schemas.ts'

const JSON_SCHEMA = 'http://json-schema.org/draft-07/schema#'

/** Files for those who read the events, by name: a JSON Schema for each event, and an AsyncAPI document of all. Pure. */
export function orderEventFiles(): Record<string, object> {
  const schemas = Object.entries(orderEventSchemas()).map(([type, schema]) => [
    `schemas/${shortName(type)}.schema.json`,
    { $schema: JSON_SCHEMA, ...schema },
  ])
  return { ...Object.fromEntries(schemas), 'asyncapi.json': orderEventDocument() }
}

/** The AsyncAPI 3.0 document of the notification topic. Pure. */
export function orderEventDocument(): object {
  const schemas = Object.entries(orderEventSchemas())
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Storefront order events',
      version: '1.0.0',
      description:
        'Every change of an order gives one event. Delivery is at least once; dedupe by `id`. Events of one order come in order.',
    },
    defaultContentType: 'application/cloudevents+json',
    channels: {
      orders: {
        // Where it is depends on the installation.
        address: null,
        title: 'The notification topic',
        messages: Object.fromEntries(schemas.map(([type]) => [shortName(type), { $ref: `#/components/messages/${shortName(type)}` }])),
      },
    },
    operations: {
      publishOrderEvent: { action: 'send', channel: { $ref: '#/channels/orders' }, summary: 'Tells that an order was made or changed.' },
    },
    components: {
      messages: Object.fromEntries(schemas.map(([type]) => [shortName(type), messageOf(type)])),
      schemas: Object.fromEntries(schemas.map(([type, schema]) => [shortName(type), withoutId(schema)])),
    },
  }
}

function messageOf(type: string): object {
  return {
    name: type,
    title: `An order was ${type.split('.').at(-1)}`,
    contentType: 'application/cloudevents+json',
    payload: { $ref: `#/components/schemas/${shortName(type)}` },
  }
}

/** Inside the document a schema is known by its place. */
function withoutId({ $id: _, ...schema }: TObject & { $id?: string }): object {
  return schema
}

/** `storefront.order.created` → `order-created`. */
function shortName(type: string): string {
  return type.replace('storefront.', '').replaceAll('.', '-')
}

import type { SwaggerOptions } from '@fastify/swagger'

/** Settings of the OpenAPI 3.1 document, which is made from the routes' own schemas. */
export function openApiOptions(baseUrl: string): SwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Storefront',
        version: '1.0.0',
        description: 'A headless backend for an online store: accounts and sessions, a product catalogue, orders.',
      },
      servers: [{ url: baseUrl }],
      tags: [{ name: 'accounts' }, { name: 'catalogue' }, { name: 'orders' }, { name: 'operations' }],
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
    },
    refResolver: { buildLocalReference: (json, _baseUri, _fragment, index) => (typeof json.$id === 'string' ? json.$id : `def-${index}`) },
  }
}

import type { FastifySchema } from 'fastify'
import type { Access, StepUp } from './access.ts'
import type { HttpServer } from './http-server.ts'
import { type CostClass, costsOf } from './request-cost.ts'

export interface ListedRoute {
  method: string
  url: string
  access: Access | undefined
  stepUp: StepUp | undefined
  costs: readonly CostClass[]
  bodyLimitBytes: number
  schema: FastifySchema
}

declare module 'fastify' {
  interface FastifyInstance {
    listedRoutes: readonly ListedRoute[]
    baseUrl: string
  }
}

/** `allowedMethods` returns the methods of a path, for 405 with `Allow`. */
export function listRoutes(server: HttpServer): { allowedMethods: (url: string) => string[] } {
  const listed: ListedRoute[] = []
  const patterns: { pattern: RegExp; isFixed: boolean; methods: string[] }[] = []
  server.decorate('listedRoutes', listed)
  server.addHook('onRoute', ({ url, method, config, bodyLimit = 0, schema = {} }) => {
    const methods = [method].flat()
    listed.push(
      ...methods.map((name) => ({
        method: name,
        url,
        access: config?.access,
        stepUp: config?.stepUp,
        costs: costsOf(config?.cost),
        bodyLimitBytes: bodyLimit,
        schema,
      })),
    )
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replace(/:[A-Za-z_]+/g, '[^/]+')}$`)
    patterns.push({ pattern, isFixed: !url.includes(':'), methods })
  })
  return {
    allowedMethods(url) {
      const path = url.split('?', 1)[0] ?? ''
      const matching = patterns.filter(({ pattern }) => pattern.test(path))
      const fixed = matching.filter((route) => route.isFixed)
      // A fixed path precedes one with a parameter: `/orders/quote` is not an order.
      return [...new Set((fixed.length > 0 ? fixed : matching).flatMap((route) => route.methods))].sort()
    },
  }
}

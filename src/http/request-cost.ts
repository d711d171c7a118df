import { availableParallelism } from 'node:os'
import type { FastifyContextConfig, FastifyRequest } from 'fastify'
import type { HttpServer } from './http-server.ts'
import { isScope } from './scopes.ts'

export interface RequestCost {
  sheds: LoadClass
  /** Processor time of the process and of PostgreSQL together, in milliseconds. */
  processorMs: number
  rows: number
  connections: 0 | 1
  /** Requests that run at once, by the number of connections. Null means no separate bound. */
  places: ((connections: number) => number) | null
  waitMs: number
}

const half = (connections: number) => Math.max(1, Math.floor(connections / 2))
const one = () => 1
/** Hashes run in threads. One additional place keeps them busy. */
const hashes = () => 2 * availableParallelism()

/** `docs/inside/security.md` has the same table. */
export const REQUEST_COSTS = {
  health: { sheds: 'essential', processorMs: 5, rows: 10, connections: 0, places: null, waitMs: 0 },
  memory: { sheds: 'lists', processorMs: 5, rows: 0, connections: 0, places: null, waitMs: 0 },
  console_page: { sheds: 'essential', processorMs: 5, rows: 0, connections: 0, places: null, waitMs: 0 },
  // A page from memory takes no place: see serve-catalogue.ts.
  page: { sheds: 'lists', processorMs: 100, rows: 200, connections: 1, places: half, waitMs: 2_000 },
  search: { sheds: 'search', processorMs: 4_000, rows: 50_000, connections: 1, places: (all) => Math.max(1, half(all) - 1), waitMs: 2_000 },
  feed: { sheds: 'search', processorMs: 100, rows: 200, connections: 1, places: one, waitMs: 10_000 },
  own: { sheds: 'lists', processorMs: 200, rows: 1_000, connections: 1, places: half, waitMs: 5_000 },
  change: { sheds: 'orders', processorMs: 200, rows: 1_000, connections: 1, places: half, waitMs: 5_000 },
  quote: { sheds: 'orders', processorMs: 200, rows: 1_000, connections: 1, places: half, waitMs: 5_000 },
  export: { sheds: 'search', processorMs: 10_000, rows: 1_000_000, connections: 1, places: one, waitMs: 10_000 },
  // The batcher limits orders itself: see order-batcher.ts.
  order: { sheds: 'orders', processorMs: 200, rows: 3_000, connections: 1, places: null, waitMs: 0 },
  password: { sheds: 'orders', processorMs: 2_000, rows: 20, connections: 1, places: hashes, waitMs: 20_000 },
  token: { sheds: 'orders', processorMs: 50, rows: 20, connections: 1, places: half, waitMs: 5_000 },
  // A sign-in waits for the provider without a connection.
  provider: { sheds: 'orders', processorMs: 50, rows: 20, connections: 1, places: () => 16, waitMs: 5_000 },
  console_sign_in: { sheds: 'essential', processorMs: 2_000, rows: 20, connections: 1, places: hashes, waitMs: 20_000 },
  // These routes need a scope, so their callers are the shop's own staff and programs.
  operator: { sheds: 'essential', processorMs: 30_000, rows: 1_000_000, connections: 1, places: null, waitMs: 0 },
} as const satisfies Record<string, RequestCost>
export type CostClass = keyof typeof REQUEST_COSTS

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A route without a cost stops the start. A route that needs a scope is `operator`. */
    cost?: CostClass | ((query: Record<string, unknown>) => CostClass)
  }
}

export function enforceCosts(server: HttpServer): void {
  server.addHook('onRoute', (route) => {
    const { access, cost } = route.config ?? {}
    if (cost === undefined && !isScope(access ?? '')) {
      throw new Error(`${[route.method].flat().join(', ')} ${route.url} does not say what it costs: set config.cost`)
    }
  })
}

export function costsOf(cost: FastifyContextConfig['cost'] = 'operator'): CostClass[] {
  if (typeof cost !== 'function') return [cost]
  return [...new Set([cost({}), cost({ q: '' })])]
}

export function costOf(request: FastifyRequest): CostClass {
  const { cost = 'operator' } = request.routeOptions.config
  return typeof cost === 'function' ? cost(request.query as Record<string, unknown>) : cost
}

/** The order of refusal. A class is refused once all previous ones are. */
export const SHED_CLASSES = ['search', 'lists', 'orders'] as const
export type ShedClass = (typeof SHED_CLASSES)[number]
/** Health checks and operators' calls are `essential`, and never refused. */
export type LoadClass = ShedClass | 'essential'

import type { Config, Role } from '../config.ts'
import { CONNECTIONS_FOR_PLACING } from '../orders/placing/order-batcher.ts'

/** The connections of roles other than the API. They work in batches, and few batches run at once. */
const CONNECTIONS_BESIDE_THE_API = 4
/** Connections outside the pools of requests, orders and the pipeline, and the roles that share each. */
const CONNECTIONS_BESIDES_POOLS: readonly { count: number; roles: readonly Role[] }[] = [
  { count: 1, roles: ['api', 'email', 'webhook', 'stream'] },
  { count: 1, roles: ['email', 'stream', 'webhook'] },
  { count: 2, roles: ['stream'] },
  { count: 1, roles: ['api', 'email', 'lake', 'webhook'] },
]

/**
 * The sizes of the pools. `DATABASE_POOL_SIZE` is for requests and orders, or for the pipeline in a process without the
 * API.
 */
export function poolSizes({ databasePoolSize, roles }: Pick<Config, 'databasePoolSize' | 'roles'>) {
  const placing = Math.min(CONNECTIONS_FOR_PLACING, Math.floor(databasePoolSize / 2))
  const pipeline = roles.includes('api') ? CONNECTIONS_BESIDE_THE_API : databasePoolSize
  return { general: databasePoolSize - placing, placing, pipeline }
}

/** The most database connections of a process, as computed in docs/operate/database.md. */
export function connectionsOf({ databasePoolSize, roles }: Pick<Config, 'databasePoolSize' | 'roles'>): number {
  const pools = databasePoolSize + (roles.includes('api') ? CONNECTIONS_BESIDE_THE_API : 0)
  const shared = CONNECTIONS_BESIDES_POOLS.filter((each) => each.roles.some((role) => roles.includes(role)))
  return shared.reduce((sum, { count }) => sum + count, pools)
}

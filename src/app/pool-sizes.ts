import type { Config } from '../config.ts'
import { CONNECTIONS_FOR_PLACING } from '../orders/placing/order-batcher.ts'

/** Connections of the other roles beside the API: their work is in batches, of which few run at once. */
const CONNECTIONS_BESIDE_THE_API = 4
// The sum in docs/operate/database.md for a process with every role.
const CONNECTIONS_BESIDES_POOLS = 5

/** The connections of each pool of a process: `DATABASE_POOL_SIZE` for requests and orders, or for the pipeline where there is no API. */
export function poolSizes({ databasePoolSize, roles }: Pick<Config, 'databasePoolSize' | 'roles'>) {
  const placing = Math.min(CONNECTIONS_FOR_PLACING, Math.floor(databasePoolSize / 2))
  const pipeline = roles.includes('api') ? CONNECTIONS_BESIDE_THE_API : databasePoolSize
  return { general: databasePoolSize - placing, placing, pipeline }
}

export function connectionsOf(config: Pick<Config, 'databasePoolSize' | 'roles'>): number {
  const beside = config.roles.includes('api') ? CONNECTIONS_BESIDE_THE_API : 0
  return config.databasePoolSize + beside + CONNECTIONS_BESIDES_POOLS
}

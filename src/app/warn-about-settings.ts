import { readFileSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import { findMisconfiguredSettings } from '../db/server-settings.ts'
import { connectionsOf } from './pool-sizes.ts'

export function warnAboutSettings(config: Config, logger: Logger): void {
  for (const message of findUnsuitableSettings(config)) logger.warn(message)
}

/** A sentence for each combination of settings that does not suit a public store. */
export function findUnsuitableSettings(config: Config, descriptors = readDescriptorLimit()): string[] {
  const { roles, baseUrl, basePath, shopOrderUrl, smtpUrl, isEmailVerificationRequired, maxConnections, traces } = config
  const messages: string[] = []
  if (traces !== null && new URL(traces.url).port === GRPC_PORT)
    messages.push(
      `port ${GRPC_PORT} of an OTLP receiver takes gRPC, which the store does not speak: set the endpoint to its port for HTTP, 4318`,
    )
  if (/^http:\/\/(?!localhost[:/]|127\.|\[::1\])/i.test(shopOrderUrl ?? ''))
    messages.push('SHOP_ORDER_URL starts with http://, so the network can change the page that gets tokens of orders: use https://')
  if (!roles.includes('api')) return messages
  const needed = maxConnections + connectionsOf(config) + FILES
  if (descriptors < needed)
    messages.push(
      `a process may open ${descriptors} files and connections, and MAX_CONNECTIONS=${maxConnections} needs ${needed}: raise the limit (ulimit -n, LimitNOFILE) or set MAX_CONNECTIONS to a smaller number`,
    )
  if (smtpUrl !== null && !isEmailVerificationRequired)
    messages.push('anybody can make this store mail any address: set EMAIL_VERIFICATION=required')
  const publicPath = new URL(baseUrl).pathname.replace(/\/$/, '')
  if (publicPath !== basePath) {
    const [shown, served] = [publicPath || '/', basePath || '/']
    messages.push(`the path of BASE_URL is ${shown} and BASE_PATH ${served}: links lead nowhere unless a proxy maps ${shown} to ${served}`)
  }
  return messages
}

/** The files that are not connections. An idle process has about 30, and one that merges lake files more. */
const FILES = 250
const GRPC_PORT = '4317'

/** The limit of open files; infinite if it cannot be read. Node.js raises the soft limit to the hard one. */
function readDescriptorLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return Number(soft ?? Number.POSITIVE_INFINITY)
  } catch (error) {
    // The file exists on Linux only.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Number.POSITIVE_INFINITY
    throw error
  }
}

/** Warns of a server with too few connections. `connections` is the number that all processes of the start need. */
export async function warnAboutServer(
  pool: Pool,
  { config, connections = connectionsOf(config), logger }: { config: Config; connections?: number | undefined; logger: Logger },
): Promise<void> {
  const needs = { connections, replicates: config.roles.includes('stream') }
  for (const { setting, value, remedy } of await findMisconfiguredSettings(pool, needs))
    logger.warn({ setting, value }, `PostgreSQL's ${setting} is ${value}: ${remedy}`)
}

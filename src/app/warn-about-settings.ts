import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import { findMisconfiguredSettings } from '../db/server-settings.ts'

/** Logs a warning for each combination of settings that is unsuitable for a public store. */
export function warnAboutSettings(config: Config, logger: Logger): void {
  for (const message of findUnsuitableSettings(config)) logger.warn(message)
}

/** A sentence for each combination of settings that is unsuitable for a public store. */
export function findUnsuitableSettings({ roles, baseUrl, basePath, smtpUrl, isEmailVerificationRequired }: Config): string[] {
  if (!roles.includes('api')) return []
  const messages: string[] = []
  if (smtpUrl !== null && !isEmailVerificationRequired)
    messages.push('anybody can make this store mail any address: set EMAIL_VERIFICATION=required')
  const publicPath = new URL(baseUrl).pathname.replace(/\/$/, '')
  if (publicPath !== basePath) {
    const [shown, served] = [publicPath || '/', basePath || '/']
    messages.push(`the path of BASE_URL is ${shown} and BASE_PATH ${served}: links lead nowhere unless a proxy maps ${shown} to ${served}`)
  }
  return messages
}

// The sum in docs/database.md for a process with every role.
const CONNECTIONS_BESIDES_POOLS = 10

/** The maximum of connections that a process opens. */
export function connectionsOf(databasePoolSize: number): number {
  return databasePoolSize + CONNECTIONS_BESIDES_POOLS
}

/** Logs a warning, with its remedy, for each setting of the PostgreSQL server that degrades the store. */
export async function warnAboutServer(pool: Pool, { databasePoolSize, roles }: Config, logger: Logger): Promise<void> {
  const needs = { connections: connectionsOf(databasePoolSize), replicates: roles.includes('stream') }
  for (const { setting, value, remedy } of await findMisconfiguredSettings(pool, needs))
    logger.warn({ setting, value }, `PostgreSQL's ${setting} is ${value}: ${remedy}`)
}

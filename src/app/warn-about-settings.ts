import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import { findMisconfiguredSettings } from '../db/server-settings.ts'

/** Logs a warning for each combination of settings that is unsuitable for a public store. */
export function warnAboutSettings({ roles, baseUrl, basePath, smtpUrl, isEmailVerificationRequired }: Config, logger: Logger): void {
  if (roles.includes('api') && smtpUrl !== null && !isEmailVerificationRequired)
    logger.warn('anybody can make this store mail any address: set EMAIL_VERIFICATION=required')
  const publicPath = new URL(baseUrl).pathname.replace(/\/$/, '')
  if (roles.includes('api') && publicPath !== basePath) {
    const [shown, served] = [publicPath || '/', basePath || '/']
    logger.warn(`the path of BASE_URL is ${shown} and BASE_PATH ${served}: links lead nowhere unless a proxy maps ${shown} to ${served}`)
  }
}

// The sum in docs/database.md for a process with every role.
const CONNECTIONS_BESIDES_POOLS = 10

/** Logs a warning, with its remedy, for each setting of the PostgreSQL server that degrades the store. */
export async function warnAboutServer(pool: Pool, { databasePoolSize, roles }: Config, logger: Logger): Promise<void> {
  const needs = { connections: databasePoolSize + CONNECTIONS_BESIDES_POOLS, replicates: roles.includes('stream') }
  for (const { setting, value, remedy } of await findMisconfiguredSettings(pool, needs))
    logger.warn({ setting, value }, `PostgreSQL's ${setting} is ${value}: ${remedy}`)
}

import type { Logger } from 'pino'
import type { Config } from '../config.ts'

/** Logs a warning for each combination of settings that works and is not meant for a public store. */
export function warnAboutSettings({ roles, baseUrl, basePath, smtpUrl, isEmailVerificationRequired }: Config, logger: Logger): void {
  if (roles.includes('api') && smtpUrl !== null && !isEmailVerificationRequired)
    logger.warn('anybody can make this store mail any address: set EMAIL_VERIFICATION=required')
  const publicPath = new URL(baseUrl).pathname.replace(/\/$/, '')
  if (roles.includes('api') && publicPath !== basePath) {
    const [shown, served] = [publicPath || '/', basePath || '/']
    logger.warn(`the path of BASE_URL is ${shown} and BASE_PATH ${served}: links lead nowhere unless a proxy maps ${shown} to ${served}`)
  }
}

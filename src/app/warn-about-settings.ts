import type { Logger } from 'pino'
import type { Config } from '../config.ts'

/** Logs a warning for each combination of settings that works and is not meant for a public store. */
export function warnAboutSettings({ roles, smtpUrl, isEmailVerificationRequired }: Config, logger: Logger): void {
  if (roles.includes('api') && smtpUrl !== null && !isEmailVerificationRequired)
    logger.warn('anybody can make this store mail any address: set EMAIL_VERIFICATION=required')
}

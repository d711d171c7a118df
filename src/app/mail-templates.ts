import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { mailLanguages } from '../mail/mail-languages.ts'
import { type MailTemplates, readMailTemplates } from '../mail/mail-templates.ts'
import { TemplateError } from '../mail/templates.ts'

/**
 * Reads the mail templates. If they are unusable, returns null in a process that sends no mails, and throws
 * TemplateError in any other.
 */
export function openMailTemplates(config: Config, logger: Logger): MailTemplates | null {
  try {
    return readStoreTemplates(config)
  } catch (error) {
    if (!(error instanceof TemplateError) || config.roles.includes('email')) throw error
    logger.warn({ reason: error.message }, 'the mail templates cannot be used: this process shows no rendered mails')
    return null
  }
}

export function readStoreTemplates(config: Config): MailTemplates {
  const { mailTemplates: directory, defaultLanguage, mailLocale, accountUrl, shopOrderUrl, baseUrl, shop, currency } = config
  const languages = mailLanguages(defaultLanguage, mailLocale)
  const pages = { accountUrl, orderUrl: shopOrderUrl ?? `${baseUrl}/order`, consoleUrl: `${baseUrl}/console` }
  return readMailTemplates({ directory, shop, languages, currency, ...pages })
}

import { ConfigError } from './settings.ts'

const SENDER = /^(?:[^<>\r\n]*<[^\s<>@]+@[A-Za-z0-9.-]+>|[^\s<>@]+@[A-Za-z0-9.-]+)$/

/** `MAIL_FROM`. Throws ConfigError. */
export function readMailFrom(value: string): string {
  if (SENDER.test(value)) return value
  throw new ConfigError('MAIL_FROM must be an e-mail address, such as Store <no-reply@store.example>')
}

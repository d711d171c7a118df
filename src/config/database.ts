import { type DatabaseAddresses, roleOf } from '../db/addresses.ts'
import { ConfigError, type Settings } from './settings.ts'

const PROTOCOLS = ['postgres:', 'postgresql:']

/** The addresses of the database by role; null for the embedded one. An address that is not set is `DATABASE_URL`. */
export function readDatabaseAddresses({ url }: Settings): DatabaseAddresses | null {
  const api = url('DATABASE_URL', PROTOCOLS)
  const others = { DATABASE_STREAM_URL: url('DATABASE_STREAM_URL', PROTOCOLS), DATABASE_OWNER_URL: url('DATABASE_OWNER_URL', PROTOCOLS) }
  const { DATABASE_STREAM_URL: stream, DATABASE_OWNER_URL: owner } = others
  for (const [name, value] of Object.entries(others)) {
    if (value === null) continue
    if (api === null) throw new ConfigError(`${name} goes with DATABASE_URL, which is not set`)
    // `storefront migrate` grants rights to the role in an address.
    if (roleOf(api) === '' || roleOf(value) === '') throw new ConfigError(`with ${name}, it and DATABASE_URL must each name their role`)
    if (databaseOf(api) !== databaseOf(value)) throw new ConfigError(`${name} must be an address of the database in DATABASE_URL`)
  }
  return api === null ? null : { api, stream: stream ?? api, owner: owner ?? api }
}

function databaseOf(url: string): string {
  return new URL(url).pathname
}

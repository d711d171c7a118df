import { type DatabaseAddresses, roleOf } from '../db/addresses.ts'
import type { Settings } from './settings.ts'

const PROTOCOLS = ['postgres:', 'postgresql:']

/** The addresses of the database by role; null for the embedded one. An address that is not set is `DATABASE_URL`. */
export function readDatabaseAddresses(settings: Settings): DatabaseAddresses | null {
  const { isSet, problems } = settings
  const api = settings.url('DATABASE_URL', PROTOCOLS, 'the embedded PostgreSQL')
  const unset = { value: api, documented: 'DATABASE_URL', from: api && 'DATABASE_URL' }
  const others = {
    DATABASE_STREAM_URL: settings.url('DATABASE_STREAM_URL', PROTOCOLS, unset),
    DATABASE_OWNER_URL: settings.url('DATABASE_OWNER_URL', PROTOCOLS, unset),
  }
  for (const [name, value] of Object.entries(others)) {
    if (!isSet(name)) continue
    if (!isSet('DATABASE_URL')) problems.push(`${name} goes with DATABASE_URL, which is not set`)
    if (api === null || value === null) continue
    // `storefront migrate` grants rights to the role in an address.
    if (roleOf(api) === '' || roleOf(value) === '') problems.push(`with ${name}, it and DATABASE_URL must each name their role`)
    if (databaseOf(api) !== databaseOf(value)) problems.push(`${name} must be an address of the database in DATABASE_URL`)
  }
  const { DATABASE_STREAM_URL: stream, DATABASE_OWNER_URL: owner } = others
  return api === null ? null : { api, stream: stream ?? api, owner: owner ?? api }
}

function databaseOf(url: string): string {
  return new URL(url).pathname
}

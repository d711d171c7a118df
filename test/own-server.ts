import type { Cleanup } from './cleanup.ts'
import { type DebianPostgres, startDebianPostgres } from './debian-postgres.ts'
import { readRoleStatements } from './operations-commands.ts'
import { TEST_SECRET } from './store.ts'

interface OwnServer extends DebianPostgres {
  /** Settings of a store on it: its three addresses and a secret. */
  settings: Record<'DATABASE_OWNER_URL' | 'DATABASE_URL' | 'DATABASE_STREAM_URL' | 'STOREFRONT_SECRET', string>
  /** Drops the database and creates it again. */
  recreate(): Promise<void>
}

/** Starts Debian's PostgreSQL with the documented roles and an empty database. */
export async function startOwnServer(t: Cleanup, settings: Record<string, string> = { fsync: 'off' }): Promise<OwnServer> {
  const server = await startDebianPostgres(t, { ...settings, wal_level: 'logical' })
  const statements = readRoleStatements()
  const run = (lines: readonly string[]) =>
    server.run(`psql "$ADMIN/postgres" -v ON_ERROR_STOP=1 <<'SQL'\n${lines.join(';\n')};\nSQL`, { ADMIN: server.address })
  await run(statements)
  const addressOf = (role: string) => Object.assign(new URL(server.address), { username: role, pathname: '/shop' }).href
  const addresses = {
    DATABASE_OWNER_URL: addressOf('shop_owner'),
    DATABASE_URL: addressOf('shop_api'),
    DATABASE_STREAM_URL: addressOf('shop_stream'),
    STOREFRONT_SECRET: TEST_SECRET,
  }
  const recreate = async () => void (await run(['drop database shop', ...statements.filter((line) => !/^create role/.test(line))]))
  return { ...server, settings: addresses, recreate }
}

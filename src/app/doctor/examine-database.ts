import type pg from 'pg'
import { fingerprintOf } from '../../auth/encryption.ts'
import { findFingerprint } from '../../auth/store-secret.ts'
import { findIssuer } from '../../auth/tokens/issuer.ts'
import type { Config } from '../../config.ts'
import { type DatabaseAddresses, roleOf } from '../../db/addresses.ts'
import { assertOwner, assertServer, assertSession } from '../../db/assert-suitable.ts'
import { readClockDifference } from '../../db/clock.ts'
import { explainConnection } from '../../db/connection-refusal.ts'
import { dataFolder, readSecret } from '../../db/embedded/data-folder.ts'
import { assertMigrated } from '../../db/migrate.ts'
import { abandonClient, connectToAny } from '../../db/pool.ts'
import { findMissingRights } from '../../db/rights.ts'
import { findMisconfiguredSettings, findOverriddenSettings } from '../../db/server-settings.ts'
import { OperatorError } from '../../errors.ts'
import { connectionsOfStart } from '../process-configs.ts'
import { check, type Finding, judgeClock, ok, problem, splitRemedy, warning } from './finding.ts'

const TIMEOUT_MS = 5_000
const BOUNDS = { lock: TIMEOUT_MS, statement: TIMEOUT_MS, idle_in_transaction_session: TIMEOUT_MS, transaction: TIMEOUT_MS }

export async function withDoctorClient<T>(
  url: string,
  setting: string,
  signal: AbortSignal,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const open = () => connectToAny(url, 'storefront-doctor', signal, BOUNDS)
  const client = await open().catch((error: unknown) => {
    const message = explainConnection(error, setting)
    throw message === null ? error : new OperatorError(message, { cause: error })
  })
  const abandon = () => abandonClient(client)
  signal.addEventListener('abort', abandon)
  try {
    await assertSession(client, setting, open)
    return await work(client)
  } finally {
    signal.removeEventListener('abort', abandon)
    await client.end()
  }
}

export const DATABASE_REMEDY = 'check that PostgreSQL runs and can be reached, and DATABASE_URL'

/** Checks the database with the API's role. Changes nothing. */
export function examineDatabase(config: Config, addresses: DatabaseAddresses, timeoutMs: number, now: () => number): Promise<Finding[]> {
  return check('database', { remedy: DATABASE_REMEDY, timeoutMs }, (signal) =>
    withDoctorClient(addresses.api, 'DATABASE_URL', signal, async (client) => {
      const { rows } = await client.query<{ version: string; database: string; role: string; super: boolean }>(
        `select current_setting('server_version') as version, current_database() as database, current_user as role,
          (select rolsuper from pg_roles where rolname = current_user) as super`,
      )
      const [{ version = '', database = '', role = '', super: isSuper = false } = {}] = rows
      const findings: Finding[] = []
      const run = async (name: string, remedy: string, work: () => Promise<Finding[]>) =>
        void findings.push(...(await check(name, { remedy, timeoutMs }, work)))
      const reached = `PostgreSQL ${version}, database ${database}, role ${role}`
      const advice = 'use a role with few rights: Roles, in docs/operate/database.md'
      findings.push(isSuper ? warning('database', `${reached}, a superuser`, advice) : ok('database', reached))
      await run('database server', DATABASE_REMEDY, () => examineServer(client, config))
      await run('session settings', DATABASE_REMEDY, () => examineOverridden(client))
      await run('schema', 'run storefront migrate', () => examineSchema(client))
      await run('clock', 'set the clocks by NTP', async () => [judgeClock('this machine', await readClockDifference(client, now))])
      await run('secret', 'set STOREFRONT_SECRET to the one that it was last changed to', async () => [await examineSecret(client, config)])
      if (config.roles.includes('api') && config.isBaseUrlGiven)
        await run('issuer', 'check BASE_URL', async () => [await examineIssuer(client, config)])
      return findings
    }),
  )
}

async function examineServer(client: pg.Client, config: Config): Promise<Finding[]> {
  await assertServer(client)
  const needs = { connections: connectionsOfStart(config), replicates: config.roles.includes('stream') }
  const settings = await findMisconfiguredSettings(client, needs)
  const warnings = settings.map(({ setting, value, remedy }) => warning('database server', `${setting} is ${value}`, remedy))
  return warnings.length > 0 ? warnings : [ok('database server', 'wal_level is logical, and its settings suit the store')]
}

async function examineOverridden(client: pg.Client): Promise<Finding[]> {
  const settings = await findOverriddenSettings(client)
  if (settings.length === 0) return []
  const shown = settings.map(({ setting, value, origin }) => `${setting} = ${value} (${origin})`)
  return [ok('session settings', `sessions of ${client.user} override ${shown.join('; ')}`)]
}

async function examineSchema(client: pg.Client): Promise<Finding[]> {
  await assertMigrated(client)
  const missing = await findMissingRights(client)
  if (missing.length === 0) return [ok('schema', 'every migration is applied, and the role has its rights')]
  const shown = missing.slice(0, 5).join(', ')
  return [
    problem('schema', `the role lacks rights: ${shown}${missing.length > 5 ? ', …' : ''}`, 'run storefront migrate, which grants them'),
  ]
}

async function examineSecret(client: pg.Client, { secret: setting, dataDir }: Config): Promise<Finding> {
  const fingerprint = await findFingerprint(client)
  const secret = setting ?? readSecret(dataFolder(dataDir), 'secret')
  const place = setting === null ? `the secret in ${dataDir}` : 'STOREFRONT_SECRET'
  if (fingerprint === null) return ok('secret', 'nothing is encrypted yet')
  if (secret === null) return problem('secret', `${place} is missing`, 'restore it from the backup that belongs to the database')
  if (fingerprintOf(secret) === fingerprint) return ok('secret', `${place} is that of the store`)
  const remedy = setting === null ? 'restore it and the database from the same backup' : 'set it to the one that it was last changed to'
  return problem('secret', `${place} is not that of the store`, remedy)
}

async function examineIssuer(client: pg.Client, { baseUrl, databaseAddresses }: Config): Promise<Finding> {
  const issuer = await findIssuer(client)
  if (issuer === null || issuer === baseUrl) return ok('issuer', `access tokens are issued for ${baseUrl}`)
  const found = `BASE_URL is ${baseUrl}, and access tokens are issued for ${issuer}`
  // The embedded store has one API process, whose BASE_URL is the issuer.
  if (databaseAddresses === null) return warning('issuer', found, 'the next start changes it; then clients refresh their tokens once')
  return problem('issuer', found, 'set BASE_URL to that in every process of the API, or run storefront issuer change with the new one')
}

export async function examineRoles({ api, stream, owner }: DatabaseAddresses, timeoutMs: number): Promise<Finding[]> {
  const examined = [
    check('stream role', { remedy: 'check DATABASE_STREAM_URL', timeoutMs }, (signal) =>
      withDoctorClient(stream, stream === api ? 'DATABASE_URL' : 'DATABASE_STREAM_URL', signal, async (client) => [
        await examineStream(client),
        ...(stream === api ? [] : await examineOverridden(client)),
      ]),
    ),
  ]
  if (owner !== api) {
    const remedy = 'check DATABASE_OWNER_URL'
    const work = (signal: AbortSignal) =>
      withDoctorClient(owner, 'DATABASE_OWNER_URL', signal, async (client) => {
        await assertOwner(client, roleOf(api))
        return [ok('owner role', `${roleOf(owner)} may change the schema`), ...(await examineOverridden(client))]
      })
    examined.push(check('owner role', { remedy, timeoutMs }, work))
  }
  return (await Promise.all(examined)).flat()
}

async function examineStream(client: pg.Client): Promise<Finding> {
  // A managed service may grant replication through a role of its own.
  const { rows } = await client.query<{ role: string; replicates: boolean }>(
    `select current_user as role,
      (select rolreplication or rolsuper from pg_roles where rolname = current_user)
      or exists (select from pg_roles where rolname = 'rds_replication' and pg_has_role(current_user, oid, 'member')) as replicates`,
  )
  const [{ role = '', replicates = false } = {}] = rows
  if (replicates) return ok('stream role', `${role} may replicate`)
  const { found, remedy } = splitRemedy(
    `the role ${role} may not replicate: set DATABASE_STREAM_URL to the address of a role that may, or run "alter role ${role} replication" as the database's administrator`,
    '',
  )
  return problem('stream role', found, remedy)
}

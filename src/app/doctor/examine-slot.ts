import type pg from 'pg'
import { findForeignReason, findStandbyReason, readSlotStatus } from '../../change-stream/replication-slot.ts'
import type { Config } from '../../config.ts'
import type { DatabaseAddresses } from '../../db/addresses.ts'
import { catalogueSlotOf, orderSlotOf } from '../prepare-database.ts'
import { DATABASE_REMEDY, withDoctorClient } from './examine-database.ts'
import { check, type Finding, ok, problem, warning } from './finding.ts'

const GIGABYTE = 1e9
// The threshold of the alert OrderStreamLogGrows.
const MUCH_RETAINED_BYTES = 5 * GIGABYTE
/** Below this share of max_slot_wal_keep_size there is little time left. */
const LITTLE_LEFT = 0.25
const LOST =
  'start a process with the role stream, which recreates it and publishes what it missed: When the slot is lost, in docs/operate/failover.md'
const FOREIGN = 'drop that slot when nothing reads it: the role stream then creates its own and publishes what it missed'

interface SlotDetails {
  version: number
  in_recovery: boolean
  keep_bytes: number | null
  safe_wal_size: number | null
  wal_status: string | null
  failover: boolean | null
  /**
   * `standbys` are the physical slots, `inactive` those without a reader, and `unknown` the names in
   * synchronized_standby_slots without a slot.
   */
  standbys: string[]
  inactive: string[]
  unknown: string[]
}

export function examineSlot(config: Config, addresses: DatabaseAddresses, timeoutMs: number): Promise<Finding[]> {
  return check('slot', { remedy: DATABASE_REMEDY, timeoutMs }, (signal) =>
    withDoctorClient(addresses.api, 'DATABASE_URL', signal, async (client) => {
      const name = orderSlotOf(addresses.api)
      const details = await readDetails(client, name)
      if (details.in_recovery) return [await examineCopy(client, name)]
      return [
        ...(await examinePosition(client, name, details, config)),
        await examineCatalogueSlot(client, catalogueSlotOf(addresses.api)),
        ...examineStandbys(name, details),
      ]
    }),
  )
}

async function readDetails(client: pg.Client, name: string): Promise<SlotDetails> {
  // The slot is read as JSON. A column that this version of PostgreSQL lacks is then null.
  const { rows } = await client.query<SlotDetails>(
    `select
      current_setting('server_version_num')::int as version,
      pg_is_in_recovery() as in_recovery,
      (select nullif(setting::bigint, -1) * 1024 * 1024 from pg_settings where name = 'max_slot_wal_keep_size') as keep_bytes,
      (to_jsonb(slot) ->> 'safe_wal_size')::float8 as safe_wal_size,
      to_jsonb(slot) ->> 'wal_status' as wal_status,
      (to_jsonb(slot) ->> 'failover')::boolean as failover,
      array(select slot_name::text from pg_replication_slots where slot_type = 'physical' order by 1) as standbys,
      array(select slot_name::text from pg_replication_slots where slot_type = 'physical' and not active order by 1) as inactive,
      array(
        select trim(wanted)
        from unnest(string_to_array(current_setting('synchronized_standby_slots', true), ',')) as wanted
        where trim(wanted) <> '' and not exists (select from pg_replication_slots where slot_name = trim(wanted))
      ) as unknown
    from (select) as one
    left join pg_replication_slots as slot on slot_name = $1`,
    [name],
  )
  return rows[0] as SlotDetails
}

async function remedyOf(client: pg.Client, name: string): Promise<string> {
  return (await findForeignReason(client, name)) === null ? LOST : FOREIGN
}

async function examineCopy(standby: pg.Client, name: string): Promise<Finding> {
  const reason = await findStandbyReason(standby, name)
  const remedy = 'set DATABASE_URL to the primary; promote this standby only when its copy is ready: docs/operate/failover.md'
  const copy = reason ?? `its copy of the replication slot ${name} is ready, so it could take over`
  return problem('slot', `DATABASE_URL leads to a standby, where nothing can be written; ${copy}`, remedy)
}

async function examinePosition(client: pg.Client, name: string, details: SlotDetails, config: Config): Promise<Finding[]> {
  const { active, lostReason, lagBytes, retainedBytes } = await readSlotStatus(client, name)
  if (lostReason !== null) return [problem('slot', lostReason, await remedyOf(client, name))]
  const keep = details.keep_bytes === null ? 'without a limit' : `of at most ${describeBytes(details.keep_bytes)} (max_slot_wal_keep_size)`
  const found = `${name} is ${active ? 'read' : 'not read by any process'}, ${describeBytes(lagBytes)} behind; PostgreSQL keeps ${describeBytes(retainedBytes)} for it, ${keep}`
  const remedy = 'start a process with the role stream; its log and the topic show why it does not read. Then raise max_slot_wal_keep_size'
  if (details.wal_status === 'unreserved') return [problem('slot', `${found}; it is lost at the next checkpoint`, remedy)]
  if (details.keep_bytes !== null && (details.safe_wal_size ?? Infinity) < LITTLE_LEFT * details.keep_bytes)
    return [problem('slot', `${found}; ${describeBytes(details.safe_wal_size)} of log later it is lost`, remedy)]
  if ((retainedBytes ?? 0) > MUCH_RETAINED_BYTES)
    return [
      warning(
        'slot',
        found,
        'check the log of the role stream, the topic and synchronized_standby_slots, and watch the disk of PostgreSQL',
      ),
    ]
  const idle = config.expectedRoles.includes('stream')
    ? 'start a process with the role stream: PostgreSQL keeps its log meanwhile'
    : 'run the role stream now and then'
  return [active ? ok('slot', found) : warning('slot', found, idle)]
}

async function examineCatalogueSlot(client: pg.Client, name: string): Promise<Finding> {
  const { active, lostReason, lagBytes } = await readSlotStatus(client, name)
  if (lostReason !== null) return warning('catalogue slot', lostReason, await remedyOf(client, name))
  return ok('catalogue slot', `${name} is ${active ? 'read' : 'not read by any process'}, ${describeBytes(lagBytes)} behind`)
}

function examineStandbys(name: string, { version, standbys, inactive, unknown, failover }: SlotDetails): Finding[] {
  if (unknown.length > 0) {
    const remedy = 'set synchronized_standby_slots to the slot of a standby that exists, or empty: until then the stream sends nothing'
    return [problem('standby', `synchronized_standby_slots names ${unknown.join(', ')}, which does not exist`, remedy)]
  }
  if (standbys.length === 0) return [ok('standby', 'the server has no slot of a standby')]
  if (inactive.length > 0) {
    const remedy = 'start the standby, or drop its slot: PostgreSQL keeps its log for it, and the stream and orders may wait for it'
    return [warning('standby', `nobody reads the slot ${inactive.join(', ')}`, remedy)]
  }
  if (version >= 170_000 && failover === false) {
    const remedy = `stop the role stream, run psql "DATABASE_STREAM_URL?replication=database" -c 'ALTER_REPLICATION_SLOT ${name} (FAILOVER)', and start it again: docs/operate/failover.md`
    return [warning('standby', `the slot ${name} is not copied to standbys`, remedy)]
  }
  if (version < 170_000)
    return [
      warning(
        'standby',
        'this version of PostgreSQL copies no slot to a standby',
        'after a promotion the role stream publishes again what the topic lacks; or upgrade to 17',
      ),
    ]
  return [
    ok(
      'standby',
      `connected: ${standbys.join(', ')}; run storefront doctor with the address of a standby to see whether its copy is ready`,
    ),
  ]
}

export function describeBytes(bytes: number | null): string {
  if (bytes === null) return 'an unknown size'
  return bytes >= GIGABYTE ? `${(bytes / GIGABYTE).toFixed(1)} GB` : `${Math.round(bytes / 1e6)} MB`
}

import type { Queryable } from './pool.ts'

export interface Needs {
  connections: number
  replicates: boolean
}

export interface MisconfiguredSetting {
  setting: string
  value: string
  remedy: string
}

export async function findMisconfiguredSettings(db: Queryable, needs: Needs): Promise<MisconfiguredSetting[]> {
  const { rows } = await db.query<{ name: string; value: string; shown: string }>(
    `select name, setting as value, current_setting(name) as shown
    from pg_settings
    where name in ('wal_level', 'max_connections', 'superuser_reserved_connections', 'reserved_connections', 'fsync', 'full_page_writes',
      'zero_damaged_pages', 'ignore_checksum_failure')`,
  )
  const values = new Map(rows.map(({ name, value }) => [name, value]))
  const remedies = new Map(findRemedies(values, needs))
  return rows.flatMap(({ name, shown }) => {
    const remedy = remedies.get(name)
    return remedy === undefined ? [] : { setting: name, value: shown, remedy }
  })
}

function* findRemedies(values: ReadonlyMap<string, string>, { connections, replicates }: Needs): Generator<[string, string]> {
  const numberOf = (name: string) => Number(values.get(name) ?? 0)
  if (replicates && values.get('wal_level') !== 'logical')
    yield ['wal_level', 'no change of an order is published without it: set wal_level = logical and restart PostgreSQL']
  const free = numberOf('max_connections') - numberOf('superuser_reserved_connections') - numberOf('reserved_connections')
  if (free < connections)
    yield ['max_connections', `this start alone opens up to ${connections}: raise it, or lower DATABASE_POOL_SIZE in every process`]
  for (const name of ['fsync', 'full_page_writes'])
    if (values.get(name) === 'off') yield [name, 'a crash of the server can destroy the database, with its orders: set it to on']
  for (const name of ['zero_damaged_pages', 'ignore_checksum_failure'])
    if (values.get(name) === 'on') yield [name, 'PostgreSQL hides damage of the tables and loses what is in them: set it to off']
}

export interface OverriddenSetting {
  setting: string
  value: string
  origin: string
}

/** The values that an installation of PostgreSQL derives from the machine's locale. */
const CHOSEN_BY_INSTALLATION: Readonly<Record<string, RegExp>> = {
  DateStyle: /^ISO/,
  TimeZone: /^/,
  lc_monetary: /^/,
  lc_numeric: /^/,
  lc_time: /^/,
  default_text_search_config: /^/,
}

/**
 * Finds the server's settings that the store overrides, so changing them has no effect. `db` is one session that has
 * been set up.
 */
export async function findOverriddenSettings(db: Queryable): Promise<OverriddenSetting[]> {
  const { rows } = await db.query<OverriddenSetting>(
    `select name as setting, reset_val || coalesce(' ' || unit, '') as value, coalesce(
      (
        select case when setrole = 0 then 'database' when setdatabase = 0 then 'role' else 'role in this database' end
        from pg_db_role_setting, unnest(setconfig) as entry
        where setrole in (0, (select oid from pg_roles where rolname = session_user))
          and setdatabase in (0, (select oid from pg_database where datname = current_database()))
          and lower(split_part(entry, '=', 1)) = lower(name)
        -- In the order in which PostgreSQL prefers them.
        order by setrole = 0, setdatabase = 0
        limit 1
      ),
      'server or address') as origin
    from pg_settings
    where source = 'session' and reset_val is distinct from setting and reset_val is distinct from boot_val
    order by lower(name)`,
  )
  return rows.filter(({ setting, value, origin }) => !(origin.includes('server') && CHOSEN_BY_INSTALLATION[setting]?.test(value)))
}

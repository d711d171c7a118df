import type { Queryable } from './pool.ts'

/** What this process needs of a server that it did not start. */
export interface Needs {
  /** The maximum of connections that this process opens. */
  connections: number
  /** Whether this process reads the change stream. */
  replicates: boolean
}

/** A setting with which the store works, but not as documented. */
export interface MisconfiguredSetting {
  setting: string
  value: string
  remedy: string
}

// Shorter timeouts end regular statements of the store on a busy day.
const MIN_STATEMENT_MS = 5_000
const MIN_LOCK_MS = 1_000

/**
 * Reads the settings of a session of the store and returns those that cause trouble. `db` must be a pool, whose sessions have been set up: a
 * setting of the session that has no effect was lost on the way, as in a pooler.
 */
export async function findMisconfiguredSettings(db: Queryable, needs: Needs): Promise<MisconfiguredSetting[]> {
  const { rows } = await db.query<{ name: string; value: string; shown: string }>(
    `select name, setting as value, current_setting(name) as shown
    from pg_settings
    where name in ('jit', 'wal_level', 'max_connections', 'superuser_reserved_connections', 'reserved_connections', 'synchronous_commit',
      'lock_timeout', 'statement_timeout', 'transaction_timeout', 'idle_session_timeout', 'default_transaction_read_only')`,
  )
  const values = new Map(rows.map(({ name, value }) => [name, value]))
  const remedies = new Map(findRemedies(values, needs))
  return rows.flatMap(({ name, shown }) => {
    const remedy = remedies.get(name)
    return remedy === undefined ? [] : { setting: name, value: shown, remedy }
  })
}

/** Pairs of setting and remedy. A number is in the setting's unit, milliseconds for a time. */
function* findRemedies(values: ReadonlyMap<string, string>, { connections, replicates }: Needs): Generator<[string, string]> {
  const numberOf = (name: string) => Number(values.get(name) ?? 0)
  const isBelow = (name: string, least: number) => numberOf(name) > 0 && numberOf(name) < least
  if (values.get('jit') === 'on')
    yield ['jit', 'what the store sets for its sessions is lost on the way: connect to PostgreSQL itself, or by a pooler in session mode']
  if (replicates && values.get('wal_level') !== 'logical')
    yield ['wal_level', 'no change of an order is published without it: set wal_level = logical and restart PostgreSQL']
  const free = numberOf('max_connections') - numberOf('superuser_reserved_connections') - numberOf('reserved_connections')
  if (free < connections)
    yield ['max_connections', `this process alone opens up to ${connections}: raise it, or lower DATABASE_POOL_SIZE in every process`]
  if (['off', 'local'].includes(values.get('synchronous_commit') ?? ''))
    yield ['synchronous_commit', 'orders that were confirmed to customers can be lost in a crash or a failover: set it to on']
  if (isBelow('statement_timeout', MIN_STATEMENT_MS))
    yield ['statement_timeout', `statements that take longer are answered 503: set it to ${MIN_STATEMENT_MS} ms or more, or to 0`]
  if (isBelow('transaction_timeout', MIN_STATEMENT_MS))
    yield ['transaction_timeout', `transactions that take longer are answered 503: set it to ${MIN_STATEMENT_MS} ms or more, or to 0`]
  if (isBelow('lock_timeout', MIN_LOCK_MS))
    yield ['lock_timeout', `whatever waits longer for a lock is answered 503: set it to ${MIN_LOCK_MS} ms or more, or to 0`]
  if (numberOf('idle_session_timeout') > 0)
    yield [
      'idle_session_timeout',
      'it ends connections that listen or hold a lock and are meant to be idle: set it to 0 for the roles of the store',
    ]
  if (values.get('default_transaction_read_only') === 'on')
    yield ['default_transaction_read_only', 'nothing can be written: set it to off for the roles of the store']
}

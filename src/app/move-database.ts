import type { Logger } from 'pino'
import { auditContextOfCommand, recordActivity } from '../activity/record-activity.ts'
import { isStoreSecret } from '../auth/store-secret.ts'
import type { DatabaseAddresses } from '../db/addresses.ts'
import { assertReachable, assertServer } from '../db/assert-suitable.ts'
import { assertEmpty, copyDatabase, TargetNotEmpty } from '../db/copy-database.ts'
import { readIdentity } from '../db/database-id.ts'
import { assertKnownSchema, assertMigrated, listMigrations } from '../db/migrate.ts'
import { connectClient, createPool } from '../db/pool.ts'
import { COMMAND_BOUNDS } from '../db/session-settings.ts'
import { sql } from '../db/sql.ts'
import { OBJECT_IN_USE, sqlState } from '../db/sql-state.ts'
import { inTransaction } from '../db/transaction.ts'
import { OperatorError } from '../errors.ts'
import { assertUnused, MOVER, type MoveSource } from './move-source.ts'
import { orderSlotOf, prepareDatabase } from './prepare-database.ts'

// Tables that describe the target's own schema and slots, and are not copied.
const KEPT = ['migrations', 'slot_positions']
const EMPTY_IN_NEW_STORE = ['users', 'products', 'orders', 'topic_messages', 'api_keys', 'webhook_endpoints']

interface MoveOptions {
  source: MoveSource
  target: DatabaseAddresses
  secret: string | null
  logger: Logger
  onStep: (text: string) => void
}

/**
 * The target has all or nothing, and its first stream publishes the rest. After OperatorError the source is unchanged.
 */
export async function moveDatabase({ source, target, secret, logger, onStep }: MoveOptions): Promise<{ tables: number; rows: number }> {
  onStep('checking both databases')
  await assertMovable(source, secret)
  await assertReachable(target, ['owner'], { isNeeded: true })
  const slotName = orderSlotOf(target.stream)
  try {
    await assertTarget(target.owner, source)
    await source.closeToOthers()
    await prepareDatabase(target, logger)
    await dropSlot(target.stream, slotName)
    return await copyStore({ source, target, onStep })
  } catch (error) {
    throw error instanceof TargetNotEmpty ? describeRows(target, slotName, error) : error
  }
}

async function copyStore({
  source,
  target,
  onStep,
}: Pick<MoveOptions, 'source' | 'target' | 'onStep'>): Promise<{ tables: number; rows: number }> {
  const pool = createPool({ url: target.owner, size: 1, applicationName: MOVER, bounds: COMMAND_BOUNDS, onError: () => {} })
  try {
    return await inTransaction(pool, async (tx) => {
      const options = { kept: KEPT, emptyInNewStore: EMPTY_IN_NEW_STORE, onStep }
      const copied = await copyDatabase({ ...options, source: source.db, target: tx })
      // Records the copied state as the same store in a new place. Otherwise the next start would take it for a
      // restored one, and skip order numbers.
      await tx.query(sql`update database_incarnations
        set identity = ${await readIdentity(tx)}
        where number = (select max(number) from database_incarnations)`)
      await recordActivity(tx, auditContextOfCommand('database move'), {
        subjectType: 'store',
        subjectId: null,
        before: null,
        after: copied,
      })
      await source.assertAlone()
      return copied
    })
  } finally {
    // The source stays locked until the commit, because the target would lack later writes.
    await source.db.query('rollback').catch(() => {})
    await pool.end()
  }
}

/** Throws OperatorError unless the source has this version's schema and this secret. */
async function assertMovable({ db, name }: MoveSource, secret: string | null): Promise<void> {
  if ((await db.query('select where pg_is_in_recovery()')).rowCount !== 0) throw new OperatorError(`${name} is a standby: move its primary`)
  await assertMigrated(db)
  await assertKnownSchema(await listMigrations(db), name)
  if (secret === null || !(await isStoreSecret(db, secret))) {
    throw new OperatorError(
      `STOREFRONT_SECRET is not the secret of ${name}: set the one that it was last changed to; the embedded store has it in DATA_DIR/secret`,
    )
  }
}

async function assertTarget(url: string, source: MoveSource): Promise<void> {
  await using owner = await connectClient(url, MOVER)
  const { rows } = await owner.query<{ encoding: string; foreign_table: string | null }>(
    `select
      current_setting('server_encoding') as encoding,
      case when to_regclass('migrations') is null then (
        select relname
        from pg_class
        where relnamespace = to_regnamespace(current_schema()) and relkind in ('r', 'p', 'v', 'm')
          and not exists (select from pg_depend where objid = pg_class.oid and deptype = 'e')
        limit 1
      ) end as foreign_table`,
  )
  const [{ encoding = '', foreign_table: foreignTable = null } = {}] = rows
  await assertServer(owner)
  if (encoding !== 'UTF8')
    throw new OperatorError(`the database in DATABASE_URL has the encoding ${encoding}; create one with the encoding UTF8`)
  if (foreignTable !== null)
    throw new OperatorError(`the database in DATABASE_URL is not empty: it has the table ${foreignTable}; nothing was moved`)
  if ((await readIdentity(owner)) === (await readIdentity(source.db)))
    throw new OperatorError(`DATABASE_URL is the address of ${source.name}: set it to that of an empty database`)
  await assertUnused(owner, 'the database in DATABASE_URL')
  await assertEmpty(owner, EMPTY_IN_NEW_STORE)
}

/**
 * Drops the source's slot, which would deliver every copied order again. The target has no slot yet, so nothing is
 * lost.
 */
async function dropSlot(url: string, slotName: string): Promise<void> {
  await using stream = await connectClient(url, MOVER)
  try {
    await stream.query(sql`select pg_drop_replication_slot(slot_name)
      from pg_replication_slots
      where slot_name = ${slotName} and database = current_database()`)
  } catch (error) {
    if (sqlState(error) !== OBJECT_IN_USE) throw error
    throw new OperatorError(`the replication slot ${slotName} is in use: stop every process of the store first; nothing was moved`, {
      cause: error,
    })
  }
}

function describeRows(target: DatabaseAddresses, slotName: string, cause: TargetNotEmpty): OperatorError {
  const { pathname } = new URL(target.owner)
  const database = decodeURIComponent(pathname.slice(1))
  return new OperatorError(
    `the database in DATABASE_URL is not empty (${cause.table}); nothing was moved. If these are only the rows of a move that was interrupted: drop the slot ${slotName} with pg_drop_replication_slot if there is one, drop the database ${database}, create it again, and run storefront database move again`,
    { cause },
  )
}

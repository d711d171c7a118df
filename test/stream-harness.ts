import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import pino from 'pino'
import { ChangeStream } from '../src/change-stream/change-stream.ts'
import { ensureReplicationSlot } from '../src/change-stream/ensure-slot.ts'
import { ORDER_SOURCE } from '../src/change-stream/order-stream-handler.ts'
import type { Lsn } from '../src/change-stream/pgoutput.ts'
import { createReplicationSlot, slotNameFor } from '../src/change-stream/replication-slot.ts'
import { recordCreatedSlot } from '../src/change-stream/slot-positions.ts'
import type { ChangeStreamOptions, Commit } from '../src/change-stream/slot-reader.ts'
import type { Pool, Queryable } from '../src/db/pool.ts'
import { inTransaction } from '../src/db/transaction.ts'
import type { OrderRecord } from '../src/orders/events.ts'
import { setStatus } from './broken-rows.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'
import { makeOrderItem } from './order-event-factory.ts'

export const silent = pino({ level: 'silent' })

/**
 * A database with the replication slot of the order stream. What `fill` writes is older than both slots: no stream
 * publishes it.
 */
export async function makeStreamDatabase(
  t: Cleanup,
  fill?: (db: TestDatabase) => Promise<void>,
): Promise<TestDatabase & { slotName: string }> {
  const db = await createTestDatabase(t)
  const slotName = slotNameFor(db.name)
  if (fill !== undefined) {
    await fill(db)
    for (const name of [slotName, slotNameFor(db.name, 'catalogue')]) {
      await createReplicationSlot(db.pool, name)
      await recordCreatedSlot(db.pool, name)
    }
    return { ...db, slotName }
  }
  assert.equal(await ensureReplicationSlot(db.pool, db.url, slotName), 'created')
  return { ...db, slotName }
}

type OrderStreamOptions = ChangeStreamOptions<OrderRecord, 'status' | 'version'>
type StreamDatabase = Pick<Awaited<ReturnType<typeof makeStreamDatabase>>, 'url' | 'pool' | 'slotName'>

export async function startStream(
  t: Cleanup,
  db: StreamDatabase,
  onCommits: OrderStreamOptions['onCommits'],
  options: Partial<OrderStreamOptions> = {},
): Promise<ChangeStream<OrderRecord, 'status' | 'version'>> {
  const stream = new ChangeStream({ source: ORDER_SOURCE, url: db.url, slotName: db.slotName, onCommits, logger: silent, ...options })
  onCleanup(t, () => stream.stop())
  await stream.start()
  return stream
}

/** Inserts orders by one statement, which no use case does but any client of the database may. Returns their ids. */
export async function insertOrders(db: Queryable, count: number, lines = 1): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID())
  const items = JSON.stringify(Array.from({ length: lines }, () => makeOrderItem({ sku: randomUUID() })))
  await db.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at)
    select id, gen_random_uuid(), 'pending', $2, $3, 'EUR', 1, $4, now(), now()
    from unnest($1::uuid[]) with ordinality as new (id, ordinality)
    order by ordinality`,
    [ids, items, 2_500 * lines, JSON.stringify([{ status: 'pending', at: new Date(), actor: { type: 'system', id: null }, reason: null }])],
  )
  return ids
}

export async function moveOrder(db: Queryable, id: string, status: string): Promise<void> {
  await setStatus(db, [id], status)
}

/** Ids of the changed orders, commit by commit. */
export const idsOf = (commits: readonly Commit[]): string[][] => commits.map(({ changes }) => changes.map(({ record }) => record.id))

/** Drops the slot when nobody reads it. */
export async function dropSlot({ pool, slotName }: Pick<StreamDatabase, 'pool' | 'slotName'>): Promise<void> {
  const drop = () => pool.query('select pg_drop_replication_slot($1)', [slotName])
  await eventually(
    () =>
      drop().then(
        () => true,
        () => false,
      ),
    { what: 'a slot that nobody reads' },
  )
}

/** Runs `work` while a transaction is open that the creation of a slot waits for. */
export async function beforeSlotsAreCreated<T>(pool: Pool, work: () => Promise<T>): Promise<T> {
  return inTransaction(pool, async (holder) => {
    await holder.query('select pg_current_xact_id()')
    return work()
  })
}

export async function confirmedPosition(db: StreamDatabase): Promise<Lsn> {
  const { rows } = await db.pool.query<{ confirmed: string }>(
    'select confirmed_flush_lsn as confirmed from pg_replication_slots where slot_name = $1',
    [db.slotName],
  )
  return parseLsn(rows[0]?.confirmed ?? '0/0')
}

export async function currentPosition(db: Pick<TestDatabase, 'pool'>): Promise<Lsn> {
  const { rows } = await db.pool.query<{ lsn: string }>('select pg_current_wal_lsn() as lsn')
  return parseLsn(rows[0]?.lsn ?? '0/0')
}

/** The end of a commit in the write-ahead log. */
export const endOf = (commit: Commit | undefined): Lsn => BigInt(`0x${commit?.position.split('/')[1]}`)

/** Time of the reader's last reply to the server, as text that sorts; null before the first. */
export async function lastReply(db: StreamDatabase): Promise<string | null> {
  const { rows } = await db.pool.query<{ reply: string | null }>(
    `select extract(epoch from reply_time)::text as reply
    from pg_stat_replication join pg_replication_slots on active_pid = pid where slot_name = $1`,
    [db.slotName],
  )
  return rows[0]?.reply ?? null
}

/**
 * Returns when everything written so far has been sent to the reader. A busy reader stops at its limits: see
 * `untilHeld`.
 */
export async function untilSent(db: StreamDatabase): Promise<void> {
  const written = await currentPosition(db)
  await eventually(async () => (await sentPosition(db)) >= written, { what: 'all changes on their way to the reader' })
}

/**
 * Returns when nothing more is sent to the reader of a busy handler: all is sent, or the reader and the sockets are
 * full.
 */
export async function untilHeld(db: StreamDatabase, atLeast: Lsn): Promise<void> {
  let sent = 0n
  await eventually(
    async () => {
      const before = sent
      sent = await sentPosition(db)
      if (sent >= atLeast && sent === before) return true
      await pause(200)
      return false
    },
    { what: 'a reader at its limits' },
  )
}

async function sentPosition(db: StreamDatabase): Promise<Lsn> {
  const { rows } = await db.pool.query<{ sent: string }>(
    'select sent_lsn as sent from pg_stat_replication join pg_replication_slots on active_pid = pid where slot_name = $1',
    [db.slotName],
  )
  return parseLsn(rows[0]?.sent ?? '0/0')
}

export async function readerPid(db: StreamDatabase): Promise<number | null> {
  const { rows } = await db.pool.query<{ pid: number | null }>('select active_pid as pid from pg_replication_slots where slot_name = $1', [
    db.slotName,
  ])
  return rows[0]?.pid ?? null
}

/** Ends the reader's connection from the server's side, and returns when the slot is free. */
export async function breakReader(db: StreamDatabase): Promise<void> {
  const pid = await eventually(async () => (await readerPid(db)) ?? undefined, { what: 'an active reader' })
  await db.pool.query('select pg_terminate_backend($1, 60000)', [pid])
  await eventually(async () => (await readerPid(db)) !== pid, { what: 'the end of the reader' })
}

/** `16/B374D848` → its number. */
function parseLsn(text: string): Lsn {
  const [high = '0', low = '0'] = text.split('/')
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}

import { setTimeout as delay } from 'node:timers/promises'
import { type PgoutputMessage, PgoutputReader } from '../../change-stream/pgoutput.ts'
import { findLostReason } from '../../change-stream/replication-slot.ts'
import { connectClient, type Pool, type Queryable } from '../../db/pool.ts'
import { literal, sql } from '../../db/sql.ts'
import { OBJECT_IN_USE, sqlState } from '../../db/sql-state.ts'
import type { TopicEvent } from '../../topic/topic.ts'
import type { OnStep } from '../on-step.ts'
import type { ComparedPartition } from './compared-partition.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import { readTopic } from './read-partition.ts'

/** The time is longer than ten seconds, which is the interval in which an idle reader confirms its position. */
export const PATIENCE_MS = 25_000
const POLL_MS = 250
const FETCH_ROWS = 2_000

export const MISSING_FROM_TOPIC = sql`select event_id, changed_at from recorded_events anti join topic_events using (event_id)`

type Change<Row> = Extract<PgoutputMessage<Row, never>, { kind: 'change' }>

export interface InFlightOptions {
  pool: Pool
  streamUrl: string
  slotName: string
  /** How long to wait for changes in flight. The default is 25 seconds. */
  patienceMs?: number | undefined
  onStep?: OnStep
}

export interface InFlightResult {
  /** Why the slot has not delivered all, or null: it is lost, or its refill has not ended. */
  slotLost: string | null
  isRefilled: boolean
  /** Whether each missing event is known to be lost or in flight. */
  isSettled: boolean
  topicEnd: number
}

/**
 * Waits until the reader of the slot has passed all changes. Events that are missing then are lost. If the slot has no
 * reader, the changes in it are in flight, and their events are added to `held_events`.
 */
export async function awaitInFlight<Row extends object, E extends TopicEvent>(
  tables: ComparisonTables,
  partition: ComparedPartition<Row, E>,
  { pool, streamUrl, slotName, patienceMs = PATIENCE_MS, onStep = () => {} }: InFlightOptions,
  position: number,
): Promise<InFlightResult> {
  onStep('waiting for changes that are on their way to the topic')
  const { rows } = await pool.query<{ lsn: string }>('select pg_current_wal_insert_lsn() as lsn')
  const deadline = performance.now() + patienceMs
  for (let end = position; ; ) {
    const slot = await readSlot(pool, slotName, rows[0]?.lsn ?? '0/0')
    // The topic is read after the slot's position, because a change is in the topic before its position is confirmed.
    end = await readTopic(partition, tables, end)
    const found = { slotLost: slot.lost, isRefilled: slot.isRefilled, isSettled: true, topicEnd: end }
    if (slot.isPast || slot.isRefilled || (await tables.count(MISSING_FROM_TOPIC)) === 0) return found
    if (!slot.isActive && (await readHeldEvents(streamUrl, slotName, partition, tables)))
      return { ...found, topicEnd: await readTopic(partition, tables, end) }
    if (performance.now() > deadline) return { ...found, isSettled: false }
    await delay(POLL_MS)
  }
}

async function readSlot(
  db: Queryable,
  slotName: string,
  lsn: string,
): Promise<{ lost: string | null; isRefilled: boolean; isActive: boolean; isPast: boolean }> {
  const reason = await findLostReason(db, slotName)
  const { rows } = await db.query<{ is_active: boolean; is_past: boolean }>(
    'select active as is_active, confirmed_flush_lsn >= $2 as is_past from pg_replication_slots where slot_name = $1',
    [slotName, lsn],
  )
  const { rows: known } = await db.query(sql`select from slot_positions where slot_name = ${slotName}`)
  // A slot that was never made has lost nothing: the stream publishes everything when it first runs.
  const lost = rows.length + known.length === 0 ? null : reason
  return { lost, isRefilled: reason !== null, isActive: rows[0]?.is_active ?? false, isPast: rows[0]?.is_past === true }
}

/** Adds the events in the slot to `held_events`. Returns false if the slot has a reader after all. */
function readHeldEvents<Row extends object, E extends TopicEvent>(
  streamUrl: string,
  slotName: string,
  { publication, table, keys, stored, idsOf }: ComparedPartition<Row, E>,
  tables: ComparisonTables,
): Promise<boolean> {
  const reader = new PgoutputReader<Row>({ table, columns: keys, previousColumns: [] })
  return peekIntoSlot(streamUrl, { slotName, publication }, reader, (changes) =>
    tables.add(
      'held_events',
      // A new row has all its events, such as an order that was moved in with its history.
      changes
        .flatMap(({ record, previous }) => (previous === null ? idsOf(record) : stored.eventIdOf(record)))
        .map((event_id) => ({ event_id })),
    ),
  )
}

/** Consumes nothing. Returns false when the slot has a reader after all. */
async function peekIntoSlot<Row extends object>(
  streamUrl: string,
  { slotName, publication }: { slotName: string; publication: string },
  reader: PgoutputReader<Row>,
  visit: (changes: Change<Row>[]) => Promise<void>,
): Promise<boolean> {
  await using stream = await connectClient(streamUrl, 'storefront-verify')
  try {
    await stream.query('begin')
    await stream.query(
      `declare held no scroll cursor for
      select data from pg_logical_slot_peek_binary_changes($1, null, null, 'proto_version', '1', 'publication_names', $2)`,
      [slotName, publication],
    )
    for (let changes = await fetchChanges(stream, reader); changes !== null; changes = await fetchChanges(stream, reader))
      await visit(changes)
    return true
  } catch (error) {
    if (sqlState(error) === OBJECT_IN_USE) return false
    throw error
  }
}

async function fetchChanges<Row extends object>(tx: Queryable, reader: PgoutputReader<Row>): Promise<Change<Row>[] | null> {
  const { rows } = await tx.query<{ data: Buffer }>(sql`fetch ${literal(FETCH_ROWS)} from held`)
  if (rows.length === 0) return null
  return rows.flatMap(({ data }) => {
    const message = reader.read(data)
    return message.kind === 'change' ? [message] : []
  })
}

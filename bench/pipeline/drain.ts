import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { parseName } from '../../src/lake/lake-names.ts'
import { EPOCH_SEQUENCES } from '../../src/topic/topic.ts'
import type { Cleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { printTable } from '../orders/measurement.ts'
import { nowMs } from './clock.ts'
import { orderText } from './order-text.ts'
import { type Rig, startRig, type TopicKind } from './rig.ts'

const PATIENCE_MS = 600_000
// Each check takes time from the processes that are measured.
const SELDOM = { timeoutMs: PATIENCE_MS, pauseMs: 100 }

/** How fast a backlog is drained into topic and lake, one after the other and both at once. */
export async function measureDrain(cleanup: Cleanup, kind: TopicKind, events: number): Promise<void> {
  const rig = await startRig(cleanup, kind)
  const rows: (string | number)[][] = []
  const add = (what: string, fromMs: number, toMs: number) => {
    const seconds = (toMs - fromMs) / 1_000
    rows.push([what, Math.round(events / seconds), seconds.toFixed(1)])
  }

  await commitBacklog(rig, events)
  const stream = await rig.startRole('stream')
  add('stream alone: into the topic', stream.activeAtMs, await untilInTopic(rig, events))
  await untilForgotten(rig)
  await stream.stop()
  const lake = await rig.startRole('lake')
  add('lake alone: from the topic into files', lake.activeAtMs, await untilInLake(rig, events))
  await lake.stop()

  await commitBacklog(rig, events)
  const both = await Promise.all([rig.startRole('lake'), rig.startRole('stream')])
  const startedMs = Math.min(...both.map(({ activeAtMs }) => activeAtMs))
  const [inTopicMs, inLakeMs] = await Promise.all([untilInTopic(rig, 2 * events), untilInLake(rig, 2 * events)])
  add('both at once: into the topic', startedMs, inTopicMs)
  add('both at once: into topic and files', startedMs, inLakeMs)
  for (const role of both) await role.stop()

  console.log(`\n${kind}: draining ${events} committed orders, one transaction each.\n`)
  printTable(['drained', 'events/s', 'seconds'], rows)
}

/** Does not wait for the disk at each commit: the backlog is ready sooner, and the log to read is the same. */
async function commitBacklog({ pool }: Rig, orders: number): Promise<void> {
  const client = await pool.connect()
  try {
    const userId = randomUUID()
    const { items, history, productIds, total } = orderText(userId)
    await client.query('set synchronous_commit = off')
    // A block takes no parameters; these texts have no quotes in them.
    await client.query(`do $$
      begin
        for i in 1..${Math.trunc(orders)} loop
          insert into orders (id, user_id, status, items, total_amount, currency, status_history, product_ids, created_at, updated_at)
          values (uuidv7(), '${userId}', 'pending', '${items}', ${total}, 'EUR', '${history}', '{${productIds}}',
            clock_timestamp(), clock_timestamp());
          commit;
        end loop;
      end
    $$`)
    await client.query('reset synchronous_commit')
    await client.query('checkpoint')
  } finally {
    client.release()
  }
}

/**
 * Waits until PostgreSQL has logged a snapshot of the running transactions, which it does from time to time. Until then the next reader of
 * the slot decodes the drained changes again; a backlog after a quiet time has no such work before it.
 */
async function untilForgotten({ pool }: Rig): Promise<void> {
  const { rows } = await pool.query<{ written: string }>('select pg_current_wal_lsn()::text as written')
  await eventually(
    async () => {
      await pool.query('select pg_log_standby_snapshot()')
      const { rowCount } = await pool.query(
        'select from pg_replication_slots where database = current_database() and restart_lsn >= $1::pg_lsn',
        [rows[0]?.written],
      )
      return rowCount === 1
    },
    { what: 'a slot that starts behind what was drained', timeoutMs: PATIENCE_MS },
  )
}

async function untilInTopic(rig: Rig, messages: number): Promise<number> {
  await eventually(async () => (await rig.countMessages()) >= messages, { ...SELDOM, what: 'the backlog in the topic' })
  return nowMs()
}

/** Each published file is complete, and its name is the range of its sequences. */
async function untilInLake({ lake }: Rig, events: number): Promise<number> {
  await eventually(async () => (await newestInLake(lake)) >= events, { ...SELDOM, what: 'the backlog in the lake' })
  return nowMs()
}

async function newestInLake(lake: string): Promise<number> {
  const names = await readdir(`${lake}/orders`, { recursive: true }).catch(() => [])
  return Math.max(0, ...names.map((name) => (parseName(`orders/${name}`)?.last ?? 0) % EPOCH_SEQUENCES))
}

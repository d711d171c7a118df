import { randomUUID } from 'node:crypto'
import type { Cleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { nowMs } from '../rig/clock.ts'
import { median } from '../rig/measurement.ts'
import { processorSeconds } from '../rig/processor-time.ts'
import { openStore, type Store, type TopicKind } from '../rig/store.ts'
import { newestInLake } from '../rig/whole-store.ts'
import type { Row } from '../row.ts'
import { orderText } from './order-text.ts'

const PATIENCE_MS = 600_000
// Each check takes time from the measured processes, so checks are rare.
const SELDOM = { timeoutMs: PATIENCE_MS, pauseMs: 100 }

/** Measures the rate at which a backlog is drained into topic and lake at once, and into each of them alone. */
export async function measureDrain(
  cleanup: Cleanup,
  kind: TopicKind,
  { events, rounds }: { events: number; rounds: number },
): Promise<Row> {
  const store = await openStore(cleanup, { topic: kind })
  const rate = (fromMs: number, toMs: number) => events / ((toMs - fromMs) / 1_000)

  await commitBacklog(store, events)
  const stream = await store.start('stream')
  const streamAlone = rate(stream.activeAtMs, await untilInTopic(store, events))
  await untilForgotten(store)
  await stream.stop()
  const lake = await store.start('lake')
  const lakeAlone = rate(lake.activeAtMs, await untilInLake(store.lake, events))
  await lake.stop()

  const both: number[] = []
  const processorMicroseconds: number[] = []
  for (let round = 1; round <= rounds; round++) {
    const total = (round + 1) * events
    await commitBacklog(store, events)
    const roles = await Promise.all([store.start('lake'), store.start('stream')])
    const pids = [store.postgresPid, ...roles.map(({ pid }) => pid)]
    const usedBefore = processorSeconds(pids)
    const startedMs = Math.min(...roles.map(({ activeAtMs }) => activeAtMs))
    const [, inLakeMs] = await Promise.all([untilInTopic(store, total), untilInLake(store.lake, total)])
    both.push(rate(startedMs, inLakeMs))
    processorMicroseconds.push(((processorSeconds(pids) - usedBefore) / events) * 1e6)
    await untilForgotten(store)
    for (const role of roles) await role.stop()
  }
  return {
    work: `drain of ${events.toLocaleString('en')} events into topic and lake at once, ${kind}`,
    goal: { atLeast: 20_000 },
    unit: 'events/s',
    rounds: both.map((value) => ({ value })),
    note:
      `a process for each role, orders of three lines, one transaction each; timed from when the first role is at work. The stream alone ${perSecond(streamAlone)}, the lake alone ` +
      `${perSecond(lakeAlone)} a second, each once. Processor time of an event, with PostgreSQL and without the broker, ${median(processorMicroseconds).toFixed(0)} µs.`,
  }
}

function perSecond(value: number): string {
  return Math.round(value).toLocaleString('en')
}

/**
 * Commits orders without waiting for the disk at each commit. The backlog is ready sooner, and the log to read is the
 * same.
 */
async function commitBacklog({ pool }: Store, orders: number): Promise<void> {
  const client = await pool.connect()
  try {
    const userId = randomUUID()
    const { items, history, productIds, total } = orderText(userId)
    await client.query('set synchronous_commit = off')
    // A block takes no parameters. These texts contain no quotes.
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
 * Waits until PostgreSQL has logged a snapshot of the running transactions, which it does from time to time. Until
 * then, the slot's next reader decodes the drained changes again. A backlog after a quiet time has no such work.
 */
async function untilForgotten({ pool }: Store): Promise<void> {
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

async function untilInTopic(store: Store, messages: number): Promise<number> {
  await eventually(async () => (await store.countMessages()) >= messages, { ...SELDOM, what: 'the backlog in the topic' })
  return nowMs()
}

async function untilInLake(lake: string, events: number): Promise<number> {
  await eventually(async () => (await newestInLake(lake)) >= events, { ...SELDOM, what: 'the backlog in the lake' })
  return nowMs()
}

import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { openLake } from '../src/app/open-lake.ts'
import { orderSlotOf } from '../src/app/prepare-database.ts'
import { type ReplayOptions, type ReplayReport, replay } from '../src/audit/replay/replay.ts'
import { orderPartition } from '../src/audit/verify/compared-partition.ts'
import { type VerifyOptions, type VerifyReport, verify } from '../src/audit/verify/verify.ts'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import type { Pool } from '../src/db/pool.ts'
import type { LakeStore } from '../src/lake/lake-store.ts'
import { findLakeEnd } from '../src/lake/list-files.ts'
import { ORDERS } from '../src/topic/partitions.ts'
import { createPostgresTopic } from '../src/topic/postgres/postgres-topic.ts'
import type { Topic } from '../src/topic/topic.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { type Account, type StoreOverrides, startSecondProcess, startStore, type TestStore } from './store.ts'
import { silent } from './stream-harness.ts'

const PAUSE_MS = 100
const CAUGHT_UP_MS = 5_000

/**
 * A store of which one process only serves the API and another is the pipeline, which can be stopped and looked into.
 */
export interface AuditedStore extends TestStore {
  topic: Topic
  /** The folder of a lake that is in one. */
  lake: string
  lakeStore: LakeStore
  /** Starts a pipeline and returns the function that stops it. */
  startPipeline(): Promise<() => Promise<void>>
  /** Places orders and cancels every third; returns their ids. */
  trade(count: number): Promise<string[]>
  verify(patienceMs?: number, placed?: VerifyOptions['placed']): Promise<VerifyReport>
  replay(filter?: ReplayOptions['filter']): Promise<ReplayReport>
  /** Waits until everything has arrived everywhere. `withoutMail`: the number of versions that no mail reports. */
  untilDelivered(withoutMail?: number): Promise<void>
}

export async function startAuditedStore(t: Cleanup, overrides: StoreOverrides = {}): Promise<AuditedStore> {
  const store = await startStore(t, { hasSlot: true, lakeFlushSeconds: 1, mailMaxPerHour: null, ...overrides })
  const topic = createPostgresTopic(ORDERS, { pool: store.pool, url: store.url, logger: silent })
  const lakeStore = await openLake(store.config)
  onCleanup(t, () => lakeStore.close())
  const slotName = orderSlotOf(store.url)
  const product = await store.addProduct({ stock: null })
  const customer = await store.register()
  const { lakeFlushSeconds } = store.config
  const common = {
    pool: store.pool,
    streamUrl: store.addresses.stream,
    topic,
    slotName,
    lake: lakeStore,
    lakeFlushSeconds,
    now: () => new Date(),
  }
  const check: AuditedStore['verify'] = (patienceMs = 60_000, placed = undefined) => verify({ ...common, patienceMs, placed })
  return {
    ...store,
    topic,
    lake: dataFolder(store.config.dataDir).lake,
    lakeStore,
    async startPipeline() {
      const { app } = await startSecondProcess(t, store, { roles: ['api', 'stream', 'email', 'lake'] })
      return () => app.stop()
    },
    trade: (count) => trade(store, customer, product.id, count),
    verify: check,
    replay: (filter = {}) => replay(orderPartition(topic), { pool: store.pool, streamUrl: store.addresses.stream, slotName, filter }),
    async untilDelivered(withoutMail = 0) {
      await untilCaughtUp(store.pool, lakeStore)
      await eventually(
        async () => {
          const { topic, mails, lake, orders } = await check()
          const { versions } = orders
          return topic.events === versions && mails.sent === versions - withoutMail && lake.events === versions
        },
        { timeoutMs: 120_000, what: 'every event everywhere' },
      )
    },
  }
}

/**
 * A store whose pipeline has written a lake file of each number of orders, of which every third is cancelled, and has
 * stopped.
 */
export async function startStoreWithFiles(t: Cleanup, ordersOfFiles: readonly number[]): Promise<AuditedStore> {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  for (const orders of ordersOfFiles) {
    await store.trade(orders)
    await store.untilDelivered()
  }
  await stop()
  return store
}

/**
 * Waits until no mail is queued, the newest version of each order is on the topic in PostgreSQL, and the lake ends with
 * the last message; for five seconds at most. `verify` then tells whether all has arrived. It takes half a second of a
 * processor, which the store needs meanwhile.
 */
export async function untilCaughtUp(pool: Pool, lake: LakeStore): Promise<void> {
  const deadline = performance.now() + CAUGHT_UP_MS
  const waiting = `
    select from email_deliveries where status = 'queued'
    union all select from orders where not exists (select from topic_messages where id = concat(orders.id, '.', orders.version))`
  while (performance.now() < deadline) {
    const { rows } = await pool.query<{ end: number }>('select coalesce(max(sequence), 0) as end from topic_messages')
    const isInLake = (await findLakeEnd(lake)) >= (rows[0]?.end ?? 0)
    if (isInLake && (await pool.query(waiting)).rowCount === 0) return
    await delay(PAUSE_MS)
  }
}

async function trade(store: TestStore, { token }: Account, productId: string, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let number = 1; number <= count; number++) {
    const { status, json } = await store.call('POST', '/orders', { token, body: { items: [{ product_id: productId, quantity: 1 }] } })
    assert.equal(status, 201)
    ids.push(json.id)
    if (number % 3 === 0) assert.equal((await store.call('POST', `/orders/${json.id}/cancel`, { token })).status, 200)
  }
  return ids
}

/** `topic missing 2`, one for each finding. */
export function summarise({ findings }: VerifyReport): string[] {
  return findings.map(({ place, kind, count }) => `${place} ${kind} ${count}`)
}

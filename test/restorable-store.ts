import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import pino from 'pino'
import { createPartition, createTopic } from '../src/app/create-topic.ts'
import { openLake } from '../src/app/open-lake.ts'
import { catalogueSlotOf, orderSlotOf } from '../src/app/prepare-database.ts'
import { createApp } from '../src/app.ts'
import { type VerifyReport, verify } from '../src/audit/verify/verify.ts'
import type { Terminal } from '../src/cli/command.ts'
import { backUp, restore } from '../src/cli/database-commands.ts'
import { maintain } from '../src/cli/lake-commands.ts'
import { repair, replayOrders } from '../src/cli/pipeline-commands.ts'
import { readConfig } from '../src/config.ts'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { findEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { createPool, type Pool } from '../src/db/pool.ts'
import { CATALOGUE } from '../src/topic/partitions.ts'
import type { Topic } from '../src/topic/topic.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { untilNoServer } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { untilCaughtUp } from './pipeline-audit.ts'
import { type Account, addProduct, caller, register, type TestStore } from './store.ts'
import { silent } from './stream-harness.ts'

export interface PlacedOrder {
  id: string
  number: number
  version: number
}

/**
 * A store that is started and stopped, and whose database can be put back beneath it: the embedded one, unless its
 * settings name another.
 */
export interface RestorableStore {
  dataDir: string
  environment: Record<string, string>
  start(): Promise<RunningStore>
  /** What `storefront restore` prints. The store must be stopped. */
  restore(source: string): Promise<string[]>
  /** A copy of the current database files. The store must be stopped. */
  copyDatabase(): () => void
  /** A store on another machine, without a database yet, that writes to the same lake. */
  another(): RestorableStore
}

/** Shared by the stores of one lake: a backup contains the accounts. */
interface Shared {
  buyer: (Account & { productId: string }) | null
}

export interface RunningStore {
  call: TestStore['call']
  /** The token of an operator. */
  operator: string
  pool: Pool
  topic: Topic
  place(): Promise<PlacedOrder>
  /** Cancels the order; its version after that. */
  cancel(order: PlacedOrder): Promise<number>
  /** Confirms the order as an operator. */
  confirm(order: PlacedOrder): Promise<number>
  /** The reasons of `/readyz`. */
  failing(): Promise<string[]>
  verify(): Promise<VerifyReport>
  /** What `storefront replay` prints. */
  replay(): Promise<string[]>
  /** Does what `storefront lake repair` does. */
  repairLake(): Promise<number>
  /** Does what `storefront lake maintain` does: the store itself writes the tables of the newest state twice a minute. */
  maintainLake(): Promise<number>
  /** Does what `storefront backup` does. */
  backUp(target: string): Promise<void>
  /** Waits until every version of every order is mailed and in the lake. */
  untilDelivered(): Promise<void>
  stop(): Promise<void>
}

/** One row of the lake, read by nothing of the store's. */
export interface LakeRow {
  eventId: string
  orderId: string
  orderNumber: string
  status: string
  sequence: number
}

export function createRestorableStore(t: Cleanup, others: Record<string, string> = {}, shared: Shared = { buyer: null }): RestorableStore {
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-restore-'))
  onCleanup(t, async () => {
    await untilNoServer(dataDir)
    rmSync(dataDir, { recursive: true, force: true })
  })
  const environment = {
    DATA_DIR: dataDir,
    PORT: '0',
    OPS_PORT: '0',
    RATE_LIMITS: 'off',
    CUSTOMER_CANCEL: 'confirmed',
    LAKE_FLUSH_SECONDS: '1',
    MAIL_MAX_PER_HOUR: '0',
    ...others,
  }
  return {
    dataDir,
    environment,
    async start() {
      const config = { ...readConfig(environment), baseUrl: 'http://localhost:3000' }
      const app = await createApp({ config, logger: silent })
      const open: (() => Promise<void>)[] = [() => app.stop()]
      const stop = async () => {
        for (const close of open.splice(0).toReversed()) await close()
      }
      // A test that has failed must not leave its process waiting for a connection.
      onCleanup(t, stop)
      await app.start()
      if (app.server === null) throw new Error('the store has no API')
      const addresses = config.databaseAddresses ?? (await findEmbeddedPostgres(dataFolder(dataDir)))
      if (addresses === null) throw new Error('the store has no database')
      const pool = createPool({ url: addresses.owner, size: 4, applicationName: 'test', onError: () => {} })
      const topic = await createTopic(config, { pool, url: addresses.owner, logger: silent })
      const catalogueTopic = await createPartition(CATALOGUE, config, { pool, url: addresses.owner, logger: silent })
      open.push(
        () => pool.end(),
        () => topic.stop(),
        () => catalogueTopic.stop(),
      )
      const call = caller(app.server)
      if (shared.buyer === null) {
        const { id: productId } = await addProduct(pool, { stock: null })
        shared.buyer = { ...(await register(call)), productId }
        await pool.query(
          `insert into users (id, email, password_hash, role) select gen_random_uuid(), 'operator@example.com', password_hash, 'admin' from users`,
        )
      }
      const { email, password, productId } = shared.buyer
      const tokenOf = async (address: string) => {
        const { json } = await call('POST', '/auth/login', { body: { email: address, password } })
        return String(json.access_token)
      }
      const [token, operator] = [await tokenOf(email), await tokenOf('operator@example.com')]
      const read = async () => {
        const lake = await openLake(config)
        const slotName = orderSlotOf(addresses.api)
        const catalogue = { topic: catalogueTopic, slotName: catalogueSlotOf(addresses.api) }
        const options = { pool, streamUrl: addresses.stream, topic, slotName, catalogue, lake, lakeFlushSeconds: 1, now: () => new Date() }
        return verify({ ...options, patienceMs: 60_000 }).finally(() => lake.close())
      }
      const untilLakeHasAll = async () => {
        const lake = await openLake(config)
        await untilCaughtUp(pool, lake).finally(() => lake.close())
      }
      const contextInto = (lines: string[]) => ({ config, logger: silent, pool, addresses, terminal: terminalInto(lines) })
      return {
        call,
        operator,
        pool,
        topic,
        async place() {
          const { status, json, text } = await call('POST', '/orders', { token, body: { items: [{ product_id: productId, quantity: 1 }] } })
          assert.equal(status, 201, text)
          return { id: json.id, number: Number(json.number), version: json.version }
        },
        async cancel({ id }) {
          const { status, json, text } = await call('POST', `/orders/${id}/cancel`, { token })
          assert.equal(status, 200, text)
          return json.version
        },
        async confirm({ id }) {
          const { status, json, text } = await call('POST', `/admin/orders/${id}/transitions`, {
            token: operator,
            body: { to: 'confirmed' },
          })
          assert.equal(status, 200, text)
          return json.version
        },
        async failing() {
          const answer = await fetch(`http://127.0.0.1:${app.operationsPort}/readyz`)
          const { failing = [] } = (await answer.json()) as { failing?: { name: string; reason: string }[] }
          return failing.map(({ name, reason }) => `${name}: ${reason}`)
        },
        verify: read,
        async replay() {
          const lines: string[] = []
          await replayOrders(contextInto(lines), { since: undefined, orderId: undefined, subscriber: undefined })
          return lines
        },
        repairLake: () => repair(contextInto([])),
        maintainLake: () => maintain(contextInto([])),
        backUp: (target) => backUp({ config, logger: silent, terminal: terminalInto([]) }, target).then(() => {}),
        async untilDelivered() {
          if (config.nats === null) await untilLakeHasAll()
          await eventually(
            async () => {
              const { topic, mails, lake, findings } = await read()
              const missing = findings.some(({ kind }) => kind === 'missing')
              return !missing && topic.lag.events + mails.queued + mails.lag.events + lake.lag.events === 0
            },
            { timeoutMs: 120_000, what: 'every event everywhere' },
          )
        },
        stop,
      }
    },
    async restore(source) {
      const lines: string[] = []
      const errors: string[] = []
      const logger = pino({ level: 'error' }, { write: (line: string) => void errors.push(line) })
      const settings = { config: readConfig(environment), logger, terminal: terminalInto(lines) }
      assert.equal(await restore(settings, source), 0, lines.join('\n'))
      assert.deepEqual(errors, [], 'a restore logs no error that it repairs itself')
      return lines
    },
    another() {
      const other = createRestorableStore(t, others, shared)
      symlinkSync(dataFolder(dataDir).lake, dataFolder(other.dataDir).lake)
      return other
    },
    copyDatabase() {
      const copies = mkdtempSync(join(tmpdir(), 'storefront-copy-'))
      onCleanup(t, () => rmSync(copies, { recursive: true, force: true }))
      const { cluster } = dataFolder(dataDir)
      cpSync(cluster, join(copies, 'postgres'), { recursive: true })
      return () => {
        rmSync(cluster, { recursive: true })
        cpSync(join(copies, 'postgres'), cluster, { recursive: true })
      }
    },
  }
}

function terminalInto(lines: string[]): Terminal {
  const write = (line: string) => void lines.push(line)
  const exit = () => {
    throw new Error('a command wants to exit')
  }
  return { out: write, err: write, exit }
}

/** Every row of the lake's files that count. */
export async function readLakeRows(dataDir: string): Promise<LakeRow[]> {
  const lake = await openLake(readConfig({ DATA_DIR: dataDir }))
  const { readLakeFiles } = await import('../src/lake/list-files.ts')
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    return await readLakeFiles(lake, 'orders', async (_, paths) => {
      const lakeRows: LakeRow[] = []
      for (const path of paths) {
        const reader = await connection.runAndReadAll(
          `select event_id, order_id, order_number, status, sequence from read_parquet('${path}', hive_partitioning = false)`,
        )
        for (const [eventId, orderId, orderNumber, status, sequence] of reader.getRows())
          lakeRows.push({
            eventId: String(eventId),
            orderId: String(orderId),
            orderNumber: String(orderNumber),
            status: String(status),
            sequence: Number(sequence),
          })
      }
      return lakeRows
    })
  } finally {
    connection.closeSync()
    instance.closeSync()
    lake.close()
  }
}

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { catalogueSlotOf, orderSlotOf } from '../src/app/prepare-database.ts'
import { findLostReason, findStandbyReason } from '../src/change-stream/replication-slot.ts'
import { type DataFolder, dataFolder } from '../src/db/embedded/data-folder.ts'
import { type EmbeddedOptions, type EmbeddedPostgres, startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { connectToAny, createPool, type Queryable } from '../src/db/pool.ts'
import { type Sql, sql } from '../src/db/sql.ts'
import { READ_ONLY_TRANSACTION, sqlState } from '../src/db/sql-state.ts'
import { type Cleanup, onCleanup } from '../test/cleanup.ts'
import { serverProcesses, untilNoServer } from '../test/data-folders.ts'
import { eventually } from '../test/eventually.ts'
import { POSTGRES_DEFAULTS } from '../test/global-setup.ts'
import { copyForStandby, startStandby } from '../test/standby.ts'
import type { Broker } from './broker.ts'
import type { Fault } from './fault.ts'
import { Round } from './round.ts'
import { VirtualAddress } from './virtual-address.ts'

/** A round's own cluster, which may crash, lose data and be replaced. Its address moves with it. */
interface Cluster {
  folder: DataFolder
  server: EmbeddedPostgres
  address: VirtualAddress
}

const clusters = new WeakMap<Round, Cluster>()

export async function openWithCluster(
  cleanup: Cleanup,
  random: () => number,
  settings: Record<string, string> = {},
  broker: Broker | null = null,
): Promise<Round> {
  const folder = dataFolder(mkdtempSync(join(tmpdir(), 'storefront-cluster-')))
  onCleanup(cleanup, () => rmSync(folder.path, { recursive: true, force: true }))
  const server = await startCluster(folder, { settings })
  const address = await VirtualAddress.open(cleanup, server.url)
  const cluster = { folder, server, address }
  onCleanup(cleanup, () => cluster.server.stop())
  const round = await Round.open(cleanup, random, address.url, broker)
  clusters.set(round, cluster)
  return round
}

export function clusterOf(round: Round): Cluster {
  const cluster = clusters.get(round)
  if (cluster === undefined) throw new Error('this round has no cluster of its own')
  return cluster
}

/** Starts a round's server, with PostgreSQL's default settings if the run requests them. */
export function startCluster(folder: DataFolder, options: EmbeddedOptions = {}): Promise<EmbeddedPostgres> {
  const settings = { ...options.settings, ...(process.env.FAULTS_POSTGRES === 'defaults' ? POSTGRES_DEFAULTS : {}) }
  return startEmbeddedPostgres(folder, { ...options, settings })
}

/** For faults in which no kernel loses its cache, because waiting for the disk would test nothing. */
export const UNSYNCED = { fsync: 'off' }

/** PostgreSQL that crashes, and a slot that loses its WAL. */
export const DATABASE_FAULTS: Fault[] = [
  {
    name: 'postgres-crash',
    ownsPostgres: true,
    title: 'kill -9 of PostgreSQL, crash recovery',
    mayRepeatMails: true,
    open: openWithCluster,
    async run(round, orders) {
      const cluster = clusterOf(round)
      const pipeline = await round.start('stream,email,lake')
      const trading = round.shop.trade(orders)
      await new Promise((resolve) => setTimeout(resolve, round.random() * 500))
      for (const { pid, program } of serverProcesses(cluster.folder.cluster)) if (program === 'postgres') process.kill(pid, 'SIGKILL')
      await cluster.server.stop()
      await untilNoServer(cluster.folder.cluster)
      cluster.server = await startCluster(cluster.folder)
      cluster.address.moveTo(cluster.server.url)
      await trading
      if (pipeline.child.exitCode !== null) await round.start('stream,email,lake')
    },
  },
  {
    name: 'slot-lost',
    ownsPostgres: true,
    title: 'WAL limit reached, slot lost',
    open: (cleanup, random) =>
      openWithCluster(cleanup, random, { ...UNSYNCED, max_slot_wal_keep_size: '1MB', min_wal_size: '32MB', max_wal_size: '32MB' }),
    async run(round, orders) {
      await round.survive('email,lake')
      const first = await round.start('stream')
      await round.shop.trade(Math.ceil(orders / 2))
      await first.kill()
      await round.shop.trade(Math.ceil(orders / 2))
      await loseSlot(round)
      // The catalogue's slot has lost its WAL too.
      await round.start('stream', { CATALOGUE: 'on' })
      await round.shop.trade(3)
      await untilMended(round)
    },
  },
]

/** Writes more WAL than the slot may keep. */
async function loseSlot(round: Round): Promise<void> {
  await eventually(
    async () => {
      await round.pool.query(`select pg_logical_emit_message(false, 'ballast', repeat('x', 8000000))`)
      await round.pool.query('select pg_switch_wal()')
      await round.pool.query('checkpoint')
      const { rows } = await round.pool.query<{ wal_status: string }>(
        `select wal_status from pg_replication_slots where slot_name ~ '_orders'`,
      )
      return rows[0]?.wal_status === 'lost'
    },
    { what: 'the slot loses its WAL' },
  )
}

/** Waits until the role `stream` has recreated and refilled the slots of both partitions. */
export async function untilMended({ pool, url }: Round): Promise<void> {
  await eventually(
    async () => {
      const reasons = await Promise.all([orderSlotOf(url), catalogueSlotOf(url)].map((slotName) => findLostReason(pool, slotName)))
      return reasons.every((reason) => reason === null)
    },
    { what: 'both slots' },
  )
}

export interface Standby {
  /** Whether its copy of the slot would survive a promotion. */
  isReady(): Promise<boolean>
  /**
   * Makes slots advance by writing the snapshot of running transactions, which PostgreSQL itself writes every 15
   * seconds.
   */
  hasten(): Promise<void>
  /** Whether it has everything that the primary has committed. */
  hasAll(): Promise<boolean>
  /** Whether a pool's new connection may use it before its promotion. */
  isUsable(): Promise<boolean>
  /** Cuts it off from its primary, which continues alone. */
  lag(): void
  promote(): Promise<void>
}

interface StandbyOptions {
  isSlotSynced: boolean
  /** Whether the primary waits for the standby at each commit. A promotion then loses nothing. */
  isSynchronous: boolean
}

/** Makes a physical standby of a round's cluster. Its promotion keeps the address. */
export async function makeStandby(round: Round, { isSlotSynced, isSynchronous }: StandbyOptions): Promise<Standby> {
  const cluster = clusterOf(round)
  const { folder, server } = cluster
  await withClient(round.url, (db) => db.query(`select pg_create_physical_replication_slot('standby', true)`))
  await server.stop()
  const standby = copyForStandby(round.cleanup, folder)
  const settings = {
    ...UNSYNCED,
    ...(isSynchronous ? { synchronous_standby_names: '*' } : {}),
    ...(isSlotSynced ? { synchronized_standby_slots: 'standby' } : {}),
  }
  cluster.server = await startCluster(folder, { settings })
  cluster.address.moveTo(cluster.server.url)
  const link = await VirtualAddress.open(round.cleanup, cluster.server.url)
  const follower = await startStandby(round.cleanup, standby, link.url, { isSlotSynced })
  return {
    async isReady() {
      return (await withClient(follower.url, (db) => findStandbyReason(db, orderSlotOf(round.url)))) === null
    },
    async hasten() {
      await withClient(cluster.server.url, (db) => db.query('select pg_log_standby_snapshot()'))
    },
    async hasAll() {
      const read = async (url: string, position: Sql) =>
        withClient(url, async (db) => (await db.query<{ position: string }>(sql`select ${position}::text as position`)).rows[0]?.position)
      const [written, replayed] = [
        await read(cluster.server.url, sql`pg_current_wal_lsn()`),
        await read(follower.url, sql`pg_last_wal_replay_lsn()`),
      ]
      return written === replayed
    },
    async isUsable() {
      const pool = createPool({ url: follower.url, size: 1, applicationName: 'faults', onError: () => {} })
      try {
        await pool.query('select 1')
        return true
      } catch (error) {
        if (sqlState(error) !== READ_ONLY_TRANSACTION) throw error
        return false
      } finally {
        await pool.end()
      }
    },
    lag() {
      link.cut()
    },
    async promote() {
      for (const { pid, program } of serverProcesses(folder.cluster)) if (program === 'postgres') process.kill(pid, 'SIGKILL')
      await cluster.server.stop()
      await untilNoServer(folder.cluster)
      await withClient(follower.url, (db) => db.query('select pg_promote(true, 120)'))
      cluster.server = follower
      cluster.folder = standby
      cluster.address.moveTo(follower.url)
    },
  }
}

async function withClient<T>(url: string, work: (db: Queryable) => Promise<T>): Promise<T> {
  const client = await connectToAny(url, 'faults')
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

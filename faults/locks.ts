import { setTimeout as pause } from 'node:timers/promises'
import { connectClient } from '../src/db/pool.ts'
import { sqlState, TOO_MANY_CONNECTIONS } from '../src/db/sql-state.ts'
import { onCleanup } from '../test/cleanup.ts'
import { ApiShop } from './api-shop.ts'
import { clusterOf, openWithCluster, UNSYNCED } from './database.ts'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

/** Repeats `disturb` while two API processes take orders. The other roles run in this process. */
async function disturbWhileTrading(round: Round, orders: number, disturb: (shop: ApiShop) => Promise<void>): Promise<void> {
  await round.survive('stream,email,lake')
  const shop = await ApiShop.open(round)
  let isTrading = true
  const disturbing = (async () => {
    while (isTrading) {
      await disturb(shop)
      await pause(100)
    }
  })()
  await shop.trade(orders).finally(() => {
    isTrading = false
  })
  await disturbing
}

async function holdFor(round: Round, statement: string, ms: number): Promise<void> {
  const holder = await round.pool.connect()
  try {
    await holder.query(`begin; ${statement}`)
    await pause(ms)
    await holder.query('rollback')
  } finally {
    holder.release()
  }
}

/** The store's sessions, except the connection that reads the change log, which `max_connections` does not count. */
const OWN_SESSIONS = `from pg_stat_activity where application_name like 'storefront%' and backend_type = 'client backend'`
const END_SESSIONS = `select pg_terminate_backend(pid) ${OWN_SESSIONS}`

/**
 * Ends the store's sessions and refuses its logins for up to 3 s, like a `pg_hba.conf` or a password that was changed
 * too early.
 */
async function refuseLogins(round: Round): Promise<void> {
  await using admin = await connectClient(clusterOf(round).server.url, 'faults')
  await admin.query('alter role current_user nologin')
  await admin.query(END_SESSIONS)
  await pause(round.random() * 3_000)
  await admin.query('alter role current_user login')
  await pause(round.random() * 1_000)
}

/** Ends the store's sessions, takes all remaining connections of the server, and holds them for up to 3 s. */
async function takeConnections(round: Round): Promise<void> {
  await using held = new AsyncDisposableStack()
  const { url } = clusterOf(round).server
  const admin = held.use(await connectClient(url, 'faults'))
  for (;;) {
    await admin.query(END_SESSIONS)
    try {
      for (;;) held.use(await connectClient(url, 'faults'))
    } catch (error) {
      if (sqlState(error) !== TOO_MANY_CONNECTIONS) throw error
      // The store may have taken some of them first.
      if ((await admin.query(`select ${OWN_SESSIONS}`)).rowCount === 0) break
    }
  }
  await pause(round.random() * 3_000)
}

const TABLES = ['orders', 'inventory', 'products', 'idempotency_keys', 'pending_order_counts', 'sessions']

/** Locks and ended sessions while the API takes orders. */
export const LOCK_FAULTS: Fault[] = [
  {
    name: 'paused-api',
    title: 'one of two API processes paused for up to 7 s under load, again and again',
    mayRepeatMails: true,
    run: (round, orders) =>
      disturbWhileTrading(round, orders, async ({ processes }) => {
        const pid = processes[round.random() < 0.5 ? 0 : 1]?.pid ?? 0
        onCleanup(round.cleanup, () => void process.kill(pid, 'SIGCONT'))
        process.kill(pid, 'SIGSTOP')
        await pause(round.random() * 7_000)
        process.kill(pid, 'SIGCONT')
      }),
  },
  {
    name: 'locked-row',
    title: 'one row of stock locked by a session for up to 4 s, again and again, under load',
    run: (round, orders) =>
      disturbWhileTrading(round, orders, (shop) =>
        holdFor(round, `select from inventory where product_id = '${shop.product()}' for update`, round.random() * 4_000),
      ),
  },
  {
    name: 'ended-backends',
    title: 'sessions of the store ended at random under load',
    mayRepeatMails: true,
    run: (round, orders) =>
      disturbWhileTrading(round, orders, async () => {
        await round.pool.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name like 'storefront%' order by random() limit 3`,
        )
      }),
  },
  {
    name: 'refused-logins',
    title: 'every session of the store ended and its logins refused for up to 3 s, again and again, under load',
    mayRepeatMails: true,
    ownsPostgres: true,
    open: (cleanup, random) => openWithCluster(cleanup, random, UNSYNCED),
    run: (round, orders) => disturbWhileTrading(round, orders, () => refuseLogins(round)),
  },
  {
    name: 'max-connections',
    title: 'every session of the store ended and max_connections reached for up to 3 s, again and again, under load',
    mayRepeatMails: true,
    ownsPostgres: true,
    open: (cleanup, random) => openWithCluster(cleanup, random, UNSYNCED),
    run: (round, orders) => disturbWhileTrading(round, orders, () => takeConnections(round)),
  },
  {
    name: 'table-locks',
    title: 'whole tables locked, changed and rewritten (VACUUM FULL) under load',
    mayRepeatMails: true,
    run: (round, orders) =>
      disturbWhileTrading(round, orders, async () => {
        const table = TABLES[Math.floor(round.random() * TABLES.length)] ?? ''
        const kind = round.random()
        if (kind < 0.4) await holdFor(round, `lock table ${table} in access exclusive mode`, round.random() * 3_000)
        else if (kind < 0.7) await round.pool.query(`alter table ${table} add column tried integer; alter table ${table} drop column tried`)
        else await round.pool.query(`vacuum full ${table}`)
      }),
  },
]

import { setTimeout as pause } from 'node:timers/promises'
import { onCleanup } from '../test/cleanup.ts'
import { ApiShop } from './api-shop.ts'
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

const TABLES = ['orders', 'inventory', 'products', 'idempotency_keys', 'pending_order_counts', 'sessions']

/** Locks and ends of sessions while the API takes orders. */
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

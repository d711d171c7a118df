import { eventually } from '../test/eventually.ts'
import { ApiShop } from './api-shop.ts'
import { makeStandby, openWithCluster, UNSYNCED, untilMended } from './database.ts'
import type { Fault } from './fault.ts'
import { DRAIN_TIMEOUT_MS, type Round } from './round.ts'

const open: Fault['open'] = (cleanup, random) => openWithCluster(cleanup, random, UNSYNCED)

/** Both partitions' streams run, because the catalogue's slot is lost together with that of orders. */
const BOTH = { CATALOGUE: 'on' }

/** PostgreSQL logs a sequence 32 numbers ahead, so a standby that lags by fewer would repeat no number anyway. */
const NUMBERS_AHEAD = 32

/**
 * An asynchronous standby loses its link, the API sells more, and the standby is promoted during sales. No role of the
 * pipeline can run then, because the slot is gone, so the API's own connections must notice. `storefront replay` lists
 * the published orders that were lost.
 */
async function promoteLagging(round: Round, orders: number): Promise<void> {
  const { shop } = round
  const standby = await makeStandby(round, { isSlotSynced: false, isSynchronous: false })
  const pipeline = await round.start('stream,email,lake', BOTH)
  const api = await ApiShop.open(round)
  await api.place(Math.ceil(orders / 4))
  await eventually(() => standby.hasAll(), { what: 'the standby has everything', timeoutMs: DRAIN_TIMEOUT_MS })
  if (await standby.isUsable()) throw new Error('a standby was used before its promotion, which would not have ended the connection')
  standby.lag()
  const kept = new Set(shop.acknowledged.keys())
  await api.place(2 * NUMBERS_AHEAD)
  await round.drain()
  const published = [...shop.acknowledged.keys()].filter((id) => !kept.has(id))
  const selling = api.place(orders)
  await standby.promote()
  await selling

  const numbers = [...api.numbers.values()]
  const doubled = numbers.filter((number, index) => numbers.indexOf(number) !== index)
  if (doubled.length > 0) throw new Error(`order numbers were given to two customers: ${doubled.join(', ')}`)
  const { rows } = await round.pool.query<{ id: string }>('select id from orders')
  const stored = new Set(rows.map(({ id }) => id))
  const { lostOrders } = await round.reconcile()
  const listed = new Map(lostOrders.map(({ id, number }) => [id, String(number)]))
  if (stored.intersection(new Set(listed.keys())).size > 0) throw new Error('an order is listed as lost that the database has')
  for (const id of published)
    if (listed.get(id) !== api.numbers.get(id)) throw new Error(`the order ${api.numbers.get(id)} was lost and is not listed`)
  // Orders that an asynchronous standby lacks are lost. No other order gets the numbers that their customers were told.
  for (const id of shop.acknowledged.keys()) if (!stored.has(id)) shop.acknowledged.delete(id)
  if (pipeline.child.exitCode !== null) await round.start('stream,email,lake', BOTH)
  await api.place(5)
  await untilMended(round)
}

/** Promotion of a physical standby with a ready copy of the slot, or without one. */
export const FAILOVER_FAULTS: Fault[] = [
  {
    name: 'failover-ready',
    title: 'failover to a standby with a synced slot',
    mayRepeatMails: true,
    ownsPostgres: true,
    open,
    async run(round, orders) {
      const standby = await makeStandby(round, { isSlotSynced: true, isSynchronous: true })
      const pipeline = await round.start('stream,email,lake', BOTH)
      await round.shop.trade(orders)
      // The copy becomes permanent once the primary's slot has moved past the standby's position, which needs changes
      // of orders.
      await eventually(
        async () => {
          await standby.hasten()
          await round.shop.trade(1)
          return standby.isReady()
        },
        { what: 'the slot is synced' },
      )
      await standby.promote()
      await round.shop.trade(5)
      if (pipeline.child.exitCode !== null) await round.start('stream,email,lake', BOTH)
      await untilMended(round)
    },
  },
  {
    name: 'failover-unready',
    title: 'failover to a standby without the slot',
    mayRepeatMails: true,
    ownsPostgres: true,
    open,
    async run(round, orders) {
      const standby = await makeStandby(round, { isSlotSynced: false, isSynchronous: true })
      const pipeline = await round.start('stream,email,lake', BOTH)
      await round.shop.trade(orders)
      await standby.promote()
      await round.shop.trade(5)
      if (pipeline.child.exitCode !== null) await round.start('stream,email,lake', BOTH)
      await round.shop.trade(3)
      await untilMended(round)
    },
  },
  {
    name: 'failover-lagging',
    title: 'asynchronous standby that lags promoted while two API processes sell, storefront replay',
    mayRepeatMails: true,
    ownsPostgres: true,
    open,
    run: promoteLagging,
  },
]

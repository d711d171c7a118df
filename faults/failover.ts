import { eventually } from '../test/eventually.ts'
import { makeStandby, openWithCluster, UNSYNCED } from './database.ts'
import type { Fault } from './fault.ts'

const open: Fault['open'] = (cleanup, random) => openWithCluster(cleanup, random, UNSYNCED)

/** Promotion of a physical standby with a ready copy of the slot, or without one. */
export const FAILOVER_FAULTS: Fault[] = [
  {
    name: 'failover-ready',
    title: 'failover to a standby with a synced slot',
    mayRepeatMails: true,
    ownsPostgres: true,
    open,
    async run(round, orders) {
      const standby = await makeStandby(round, true)
      const pipeline = await round.start('stream,email,lake')
      await round.shop.trade(orders)
      // The copy becomes permanent when the primary's slot has moved past the standby's position, which takes order changes.
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
      if (pipeline.child.exitCode !== null) await round.start('stream,email,lake')
    },
  },
  {
    name: 'failover-unready',
    title: 'failover to a standby without the slot, storefront replay',
    mayRepeatMails: true,
    ownsPostgres: true,
    open,
    async run(round, orders) {
      const standby = await makeStandby(round, false)
      const pipeline = await round.start('stream,email,lake')
      await round.shop.trade(orders)
      await standby.promote()
      await round.shop.trade(5)
      const report = await round.replay()
      if (!report.isSlotRenewed) throw new Error('the slot was there')
      if (pipeline.child.exitCode !== null) await round.start('stream,email,lake')
      await round.shop.trade(3)
    },
  },
]

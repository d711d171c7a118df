import { randomUUID } from 'node:crypto'
import type { Fault } from './fault.ts'

/** More than the pipeline has room for, and what no try can deliver. */
export const LOAD_FAULTS: Fault[] = [
  {
    name: 'poison',
    title: 'poison event: a mail that can never be sent, in the middle',
    async run(round, orders) {
      await round.survive('stream,email,lake')
      await round.shop.trade(Math.ceil(orders / 2))
      // An order of nobody: its account is gone.
      round.shop.userIds.push(randomUUID())
      await round.shop.trade(Math.ceil(orders / 2))
    },
  },
  {
    name: 'backlog',
    title: '100,000 orders of backlog, read by a new handler and a new lake',
    rounds: 1,
    isLongOnly: true,
    ordersPerRound: 100_000,
    async run(round, orders) {
      for (let placed = 0; placed < orders; placed += 10_000) await round.shop.placeTogether(Math.min(10_000, orders - placed))
      await round.survive('stream,email,lake', { LAKE_FLUSH_SECONDS: '10' })
    },
  },
]

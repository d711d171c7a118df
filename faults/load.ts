import { randomUUID } from 'node:crypto'
import { eventually } from '../test/eventually.ts'
import type { Fault } from './fault.ts'
import { DELETED_LAMP } from './shop.ts'

/** A backlog larger than the pipeline's memory, and events that can never be delivered. */
export const LOAD_FAULTS: Fault[] = [
  {
    name: 'poison',
    title: 'poison event: a mail that can never be sent, in the middle',
    async run(round, orders) {
      await round.survive('stream,email,lake')
      await round.shop.trade(Math.ceil(orders / 2))
      // The order belongs to a deleted account.
      const userId = randomUUID()
      round.shop.userIds.push(userId)
      round.shop.unreachable.add(userId)
      await round.shop.trade(Math.ceil(orders / 2))
    },
  },
  {
    name: 'poison-record',
    title: 'poison record: a row that no event can be made of, in the middle; repaired afterwards',
    async run(round, orders) {
      await round.survive('stream,email,lake')
      await round.shop.trade(Math.ceil(orders / 2))
      // The row is like one from before the database refused it.
      await round.pool.query('alter table orders disable trigger orders_lines_add_up')
      const { rows } = await round.pool.query<{ id: string }>(
        `insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
        select gen_random_uuid(), user_id, 'pending', '{}', 1250, 'EUR', jsonb_build_array(status_history -> 0), now(), now()
        from orders limit 1
        returning id`,
      )
      await round.shop.trade(Math.ceil(orders / 2))
      // Everything else is delivered before the row is repaired.
      await eventually(async () => (await round.countMessages()) === (await round.countVersions()) - 1, { what: 'all others on the topic' })
      const { findings } = await round.verify()
      if (!findings.some(({ kind }) => kind === 'dead-lettered')) throw new Error('verify does not report the dead letter')
      await round.pool.query('update orders set items = $2 where id = $1', [rows[0]?.id, DELETED_LAMP])
      await round.shop.trade(3)
    },
  },
  {
    name: 'backlog',
    title: '100,000 orders of backlog, read by a new handler and a new lake',
    rounds: 1,
    isAlone: true,
    ordersPerRound: 100_000,
    // A mail server accepts a few hundred mails a second from one worker.
    drainTimeoutMs: 1_200_000,
    async run(round, orders) {
      for (let placed = 0; placed < orders; placed += 10_000) await round.shop.placeTogether(Math.min(10_000, orders - placed))
      await round.survive('stream,email,lake', { LAKE_FLUSH_SECONDS: String(Math.ceil(orders / 10_000)) })
    },
  },
]

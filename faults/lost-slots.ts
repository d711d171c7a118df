import { setTimeout as pause } from 'node:timers/promises'
import { catalogueSlotOf, orderSlotOf } from '../src/app/prepare-database.ts'
import { eventually } from '../test/eventually.ts'
import { assertComplete, changeProducts } from './catalogue.ts'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

/** The least number of statements that a stream sends to refill a slot. */
const STATEMENTS = 20
const CATALOGUE = { CATALOGUE: 'on' }

export const LOST_SLOT_FAULTS: Fault[] = [
  {
    name: 'refill-killed',
    title: 'slot dropped, kill -9 of the stream at a statement of its refill, twice',
    async run(round, orders) {
      await round.survive('email,lake')
      const first = await round.start('stream')
      await round.shop.trade(Math.ceil(orders / 2))
      await first.kill()
      await dropSlot(round, orderSlotOf(round.url))
      for (let death = 0; death < 2; death++) {
        const dying = round.streamUntil('orders', 1 + Math.floor(round.random() * STATEMENTS))
        await round.shop.trade(Math.ceil(orders / 2))
        await dying.ended
      }
      await round.start('stream')
      await round.shop.trade(3)
      await round.drain()
      await assertInOrder(round)
    },
  },
  {
    name: 'slots-lost',
    title: 'the slots of both partitions are lost under load, two streams, kill -9 of one during the refills',
    async run(round, orders) {
      await round.survive('email,lake')
      const first = await round.start('stream', CATALOGUE)
      await Promise.all([round.shop.trade(Math.ceil(orders / 2)), changeProducts(round, orders)])
      await first.kill()
      const changing = Promise.all([round.shop.trade(orders), changeProducts(round, orders)])
      for (const slotName of [orderSlotOf(round.url), catalogueSlotOf(round.url)]) await dropSlot(round, slotName)
      const [dying] = await Promise.all([round.start('stream', CATALOGUE), round.start('stream', CATALOGUE)])
      await pause(round.random() * 300)
      await dying.kill()
      await changing
      await Promise.all([round.shop.trade(3), changeProducts(round, 3)])
      await assertComplete(round)
      await round.drain()
      await assertInOrder(round)
    },
  },
]

async function dropSlot(round: Round, slotName: string): Promise<void> {
  await eventually(
    () =>
      round.pool.query('select pg_drop_replication_slot($1)', [slotName]).then(
        () => true,
        () => false,
      ),
    { what: 'a slot that nobody reads' },
  )
}

/** Asserts that the topic has each order's versions in their order. */
async function assertInOrder(round: Round): Promise<void> {
  const { rows } = await round.pool.query<{ id: string }>(
    `select id
    from (
      select id, split_part(id, '.', 2)::integer as version,
        row_number() over (partition by split_part(id, '.', 1) order by sequence) as place
      from topic_messages
    ) as message
    where version <> place`,
  )
  if (rows.length > 0) throw new Error(`events came before earlier ones of their order: ${rows.map(({ id }) => id).join(', ')}`)
}

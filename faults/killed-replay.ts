import { orderSlotOf } from '../src/app/prepare-database.ts'
import { eventually } from '../test/eventually.ts'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

/** A replay that finds something to publish sends at least this many statements. */
const STATEMENTS = 20

/** `storefront replay` of a lost slot dies at a random statement, and is repeated after the change stream had time to overtake it. */
export const KILLED_REPLAY_FAULT: Fault = {
  name: 'replay-killed',
  title: 'slot dropped, storefront replay killed at a statement and repeated',
  async run(round, orders) {
    await round.survive('email,lake')
    const first = await round.start('stream')
    await round.shop.trade(Math.ceil(orders / 2))
    await first.kill()
    await dropSlot(round)
    await round.shop.trade(Math.ceil(orders / 2))
    await round.start('stream')
    await round.replayUntil(1 + Math.floor(round.random() * STATEMENTS)).ended
    await round.start('stream')
    await round.shop.trade(3)
    const report = await round.replay()
    if (!report.isSlotRenewed) throw new Error('the slot was not lost any more')
    await round.shop.trade(3)
    await round.drain()
    await assertInOrder(round)
  },
}

async function dropSlot(round: Round): Promise<void> {
  const slotName = orderSlotOf(round.url)
  await eventually(
    async () => {
      const { rows } = await round.pool.query<{ active: boolean }>('select active from pg_replication_slots where slot_name = $1', [
        slotName,
      ])
      return rows[0]?.active === false
    },
    { what: 'a slot that nobody reads' },
  )
  await round.pool.query('select pg_drop_replication_slot($1)', [slotName])
}

/** Each order's versions are on the topic in their order. */
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

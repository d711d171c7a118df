import { setTimeout as pause } from 'node:timers/promises'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

/** The handler is killed at a step, and another one starts. */
export async function dieAndGoOn(round: Round, orders: number, step: string): Promise<void> {
  await round.survive('email,lake')
  const dying = await round.start('stream', { FAULT: step, FAULT_AFTER: String(Math.floor(round.random() * 5)) })
  await round.shop.trade(orders)
  // On a busy machine the orders come in fewer batches than it takes.
  while (dying.child.signalCode === null) await round.shop.trade(1)
  await round.start('stream')
  await round.shop.trade(3)
}

const STEPS = ['after read', 'during publish', 'after publish', 'after confirm'] as const

/** kill -9 of the order stream handler at each step, and two handlers of which one is paused and woken. */
export const HANDLER_FAULTS: Fault[] = [
  ...STEPS.map(
    (step) =>
      ({
        name: `handler-${step.replace(' ', '-')}`,
        title: `kill -9 of the handler ${step}`,
        run: (round, orders) => dieAndGoOn(round, orders, step),
      }) satisfies Fault,
  ),
  {
    name: 'two-handlers',
    title: 'two handlers, the active one paused and woken',
    async run(round, orders) {
      await round.survive('email,lake')
      const first = await round.start('stream')
      const trading = round.shop.trade(orders)
      await pause(round.random() * 200)
      first.child.kill('SIGSTOP')
      await round.start('stream')
      await trading
      // PostgreSQL gives the slot to the second one when it ends the silent first; a woken one must then do no harm.
      await round.pool.query(
        'select pg_terminate_backend(active_pid) from pg_replication_slots where active and database = current_database()',
      )
      await round.shop.trade(5)
      first.child.kill('SIGCONT')
      await round.shop.trade(5)
    },
  },
]

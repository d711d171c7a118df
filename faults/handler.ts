import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../test/eventually.ts'
import type { Fault } from './fault.ts'
import type { Round, RoundProcess } from './round.ts'

/** Kills the handler at a step, and starts another one. */
export async function dieAndGoOn(round: Round, orders: number, step: string): Promise<void> {
  await round.survive('email,lake')
  const dying = await startDying(round, step, Math.floor(round.random() * 5))
  await round.shop.trade(orders)
  // On a busy machine the orders may arrive in too few batches to reach the step.
  while (dying.child.signalCode === null) await round.shop.trade(1)
  await round.start('stream')
  await round.shop.trade(3)
}

/** Starts a handler that dies at the step, after the step has succeeded the given number of times. */
export function startDying(round: Round, step: string, after: number): Promise<RoundProcess> {
  const seed = Math.floor(round.random() * 2 ** 32)
  return round.start('stream', { FAULT: step, FAULT_AFTER: String(after), FAULT_SEED: String(seed) })
}

/** Pauses the active handler until PostgreSQL has given its slot to another one, and then lets it continue. */
export async function pauseAndWake(round: Round, orders: number): Promise<void> {
  await round.survive('email,lake')
  const first = await round.start('stream')
  const holder = await eventually(() => findReader(round), { what: 'a reader of the slot' })
  const trading = round.shop.trade(orders)
  await pause(round.random() * 200)
  first.child.kill('SIGSTOP')
  await round.start('stream')
  await trading
  // These changes wait, regardless of the first handler's progress.
  await round.shop.trade(3)
  await eventually(async () => ((await findReader(round)) ?? holder) !== holder, { what: 'another reader of the slot', timeoutMs: 120_000 })
  await round.shop.trade(5)
  first.child.kill('SIGCONT')
  await round.shop.trade(5)
}

/** The id of the PostgreSQL process that serves the slot's reader. */
async function findReader(round: Round): Promise<number | undefined> {
  const { rows } = await round.pool.query<{ reader: number | null }>(
    'select active_pid as reader from pg_replication_slots where database = current_database() and slot_name ~ $1',
    ['_orders'],
  )
  return rows[0]?.reader ?? undefined
}

const STEPS = ['after read', 'during publish', 'after publish', 'after confirm'] as const

/** kill -9 of the order stream handler at each step, and two handlers of which one is paused and resumed. */
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
    run: pauseAndWake,
  },
]

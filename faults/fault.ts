import type { Cleanup } from '../test/cleanup.ts'
import { Round } from './round.ts'

export interface Fault {
  /** The name for `--only`. */
  name: string
  /** The title in the table. */
  title: string
  /** The number of rounds in the long run; twenty by default. */
  rounds?: number
  /** Whether mails may repeat, because the promise here is at least once. */
  mayRepeatMails?: boolean
  /** Runs one round with this number of orders, which is lower in the short run. */
  run(round: Round, orders: number): Promise<void>
  /** Creates the round, if it needs its own server. */
  open?(cleanup: Cleanup, random: () => number): Promise<Round>
  /** The orders of a round in the long run. The tests' short round has as many as any other fault. */
  ordersPerRound?: number
  /** The longest time until everything has arrived; five minutes by default. */
  drainTimeoutMs?: number
  /** Whether `open` starts an embedded PostgreSQL for the round. Such a fault does not run on another server. */
  ownsPostgres?: boolean
  /** Whether the fault runs alone, because other faults would change its times. */
  isAlone?: boolean
}

export function openRound(fault: Fault, cleanup: Cleanup, random: () => number): Promise<Round> {
  return fault.open === undefined ? Round.open(cleanup, random) : fault.open(cleanup, random)
}

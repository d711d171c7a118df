import type { Cleanup } from '../test/cleanup.ts'
import { Round } from './round.ts'

export interface Fault {
  /** For `--only`. */
  name: string
  /** For the table. */
  title: string
  /** Repetitions of the long run; twenty by default. */
  rounds?: number
  /** Whether a repeated mail is part of the promise here: at least once. */
  mayRepeatMails?: boolean
  /** Orders of a round; fewer in the short round. */
  run(round: Round, orders: number): Promise<void>
  /** Creates the round, when it needs its own server. */
  open?(cleanup: Cleanup, random: () => number): Promise<Round>
  /** Orders per round of the long run; the short round of the tests has as many as any other fault. */
  ordersPerRound?: number
  /** How long everything may take to arrive; five minutes by default. */
  drainTimeoutMs?: number
  /** Whether `open` starts an embedded PostgreSQL for the round: such a fault does not run on another server. */
  ownsPostgres?: boolean
  /** Runs alone, so that other faults do not change its times. */
  isAlone?: boolean
}

export function openRound(fault: Fault, cleanup: Cleanup, random: () => number): Promise<Round> {
  return fault.open === undefined ? Round.open(cleanup, random) : fault.open(cleanup, random)
}

import type { Cleanup } from '../test/cleanup.ts'
import { Round } from './round.ts'

export interface Fault {
  /** For `--only`. */
  name: string
  /** For the table. */
  title: string
  /** Repetitions of the long run; twenty unless said otherwise. */
  rounds?: number
  /** Whether a repeated mail is part of the promise here: at least once. */
  mayRepeatMails?: boolean
  /** Orders of a round; fewer in the short round. */
  run(round: Round, orders: number): Promise<void>
  /** Makes the round, when it needs a server of its own. */
  open?(cleanup: Cleanup, random: () => number): Promise<Round>
  /** Of the long run; the short round of the tests has as many as of any other. */
  ordersPerRound?: number
  /** How long everything may take to arrive; five minutes unless said otherwise. */
  drainTimeoutMs?: number
  /** Whether `open` starts an embedded PostgreSQL for the round: such a fault does not run on another server. */
  ownsPostgres?: boolean
  /** Nothing else is run beside it, so that its times are its own. */
  isAlone?: boolean
}

export function openRound(fault: Fault, cleanup: Cleanup, random: () => number): Promise<Round> {
  return fault.open === undefined ? Round.open(cleanup, random) : fault.open(cleanup, random)
}

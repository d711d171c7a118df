import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Pool } from '../db/pool.ts'
import { refillFigures } from '../figures/roll-up-orders.ts'
import { assertNoForeignOrder, type DemoAccounts, openDemoAccounts } from './demo-accounts.ts'
import { type DemoOrder, openDemoShop } from './demo-shop.ts'
import { busynessAt, type Ending, endingOf, type PlannedMove, planMonth, planMoves } from './plan-order.ts'

export interface DemoOptions {
  pool: Pool
  baseUrl: string
  logger: Logger
  /** Whether to place the past month's orders at once, instead of some each minute from now on. */
  isFast: boolean
  /** Number of orders; null for no end. With `isFast` a default. */
  orders: number | null
  /** Whether the store may have orders of others. */
  isForced: boolean
  /** Ends the demo after the order in progress. */
  signal: AbortSignal
  onOperatorCreated: (operator: NonNullable<DemoAccounts['newOperator']>) => void
  onProgress: (counts: DemoCounts) => void
}

export interface DemoCounts {
  orders: number
  /** Changes of status after the placing. */
  moves: number
}

const MONTH_MS = 30 * 86_400_000
const ORDERS_OF_A_MONTH = 1_500
/** A live demo places an order every two seconds at the busiest hour, and a day of an order's life takes 24 seconds. */
const LIVE_GAP_MS = 2_000
const LIVE_SPEED = 3_600
/** The lowest share of that pace. A demo at night would otherwise seem to have stopped. */
const QUIETEST_LIVE = 0.25

/** The placement or a status change of one order. `placed` is null before the placement, and if it failed. */
interface Step {
  at: Date
  order: { ending: Ending; placed: DemoOrder | null }
  move: PlannedMove['to'] | null
}

/**
 * Places invented orders and moves them, by the clock or, fast, with the times of the past month. Throws OperatorError
 * for a shop's store.
 */
export async function runDemo({ pool, isFast, signal, onProgress, ...options }: DemoOptions): Promise<DemoCounts> {
  if (!options.isForced) await assertNoForeignOrder(pool)
  const startedAt = new Date()
  const orders = options.orders ?? (isFast ? ORDERS_OF_A_MONTH : Number.POSITIVE_INFINITY)
  const accounts = await openDemoAccounts(pool, isFast ? new Date(startedAt.getTime() - MONTH_MS) : startedAt)
  if (accounts.newOperator !== null) options.onOperatorCreated(accounts.newOperator)
  let now = startedAt
  const shop = await openDemoShop({ ...options, pool, accounts, now: () => (isFast ? now : new Date()) })
  const plan = (at: Date, ending: Ending) => stepsOf(at, ending, isFast ? 1 : LIVE_SPEED)
  const steps = isFast
    ? planMonth(startedAt, orders).flatMap(({ at, ending }) => plan(at, ending).filter((step) => step.at <= startedAt))
    : plan(startedAt, endingOf(0))
  steps.sort(byTime)
  const counts: DemoCounts = { orders: 0, moves: 0 }
  for (let step = steps.shift(); step !== undefined && !signal.aborted; step = steps.shift()) {
    now = step.at
    if (!isFast && !(await untilTime(step.at, signal))) break
    const { order, move } = step
    if (move === null) {
      order.placed = await shop.place()
      counts.orders += 1
      if (!isFast && counts.orders < orders) {
        steps.push(...plan(nextPlacing(), endingOf(counts.orders)))
        steps.sort(byTime)
      }
    } else if (order.placed !== null && (await shop.move(order.placed, move, order.ending))) counts.moves += 1
    onProgress(counts)
  }
  if (isFast) await refillFigures(pool)
  return counts
}

function stepsOf(at: Date, ending: Ending, speed: number): Step[] {
  const order = { ending, placed: null }
  return [{ at, order, move: null }, ...planMoves(at, ending, speed).map((move) => ({ at: move.at, order, move: move.to }))]
}

function byTime(a: Step, b: Step): number {
  return a.at.getTime() - b.at.getTime()
}

/** The gaps between independent customers are exponential, and longer in quiet hours. */
function nextPlacing(): Date {
  const now = new Date()
  return new Date(now.getTime() - (Math.log(1 - Math.random()) * LIVE_GAP_MS) / Math.max(QUIETEST_LIVE, busynessAt(now)))
}

/** Returns false when the signal came first. */
async function untilTime(at: Date, signal: AbortSignal): Promise<boolean> {
  try {
    await delay(Math.max(0, at.getTime() - Date.now()), undefined, { signal })
    return true
  } catch (error) {
    if (signal.aborted) return false
    throw error
  }
}

import { type Cleanup, onCleanup } from '../test/cleanup.ts'
import { retryUntil } from '../test/eventually.ts'
import { type Fault, openRound } from './fault.ts'
import { Skipped } from './lake.ts'
import { makeRandom } from './random.ts'
import { DRAIN_TIMEOUT_MS, type Round } from './round.ts'

/** The result of all rounds of a fault. */
export interface FaultResult {
  name: string
  title: string
  rounds: number
  orders: number
  lost: number
  topicDoubles: number
  lakeDoubles: number
  mailDoubles: number
  wrongStock: number
  /** The longest time in which nothing arrived in the topic although changes waited. */
  longestGapMs: number
  longestDrainMs: number
  /** The complaints, by the name of the check. */
  complaints: string[]
}

export interface RunOptions {
  rounds: number
  orders: number
  seed: number
  log: (line: string) => void
}

/** Runs the rounds of a fault, each with its own printed seed, and checks each with both checkers. */
export async function runFault(fault: Fault, options: RunOptions): Promise<FaultResult> {
  const { rounds, orders, seed, log } = options
  const { name, title } = fault
  const empty = { name, title, rounds: 0, orders: 0, lost: 0, topicDoubles: 0, lakeDoubles: 0, mailDoubles: 0 }
  const result: FaultResult = { ...empty, wrongStock: 0, longestGapMs: 0, longestDrainMs: 0, complaints: [] }
  for (let round = 0; round < rounds; round++) {
    log(`${fault.name}: round ${round + 1} of ${rounds}, --only ${fault.name} --rounds 1 --seed ${seed + round}`)
    try {
      await runRound(fault, seed + round, orders, fault.drainTimeoutMs ?? DRAIN_TIMEOUT_MS, result)
    } catch (error) {
      if (error instanceof Skipped) throw error
      result.complaints.push(`seed ${seed + round}: the round broke off: ${error instanceof Error ? error.stack : error}`)
    }
  }
  return result
}

async function runRound(fault: Fault, seed: number, orders: number, drainTimeoutMs: number, result: FaultResult): Promise<void> {
  const undo: (() => Promise<void> | void)[] = []
  const cleanup: Cleanup = { after: (work) => void undo.push(work) }
  try {
    const round = await openRound(fault, cleanup, makeRandom(seed))
    const gap = watchGap(round)
    onCleanup(cleanup, async () => void (await gap.stop()))
    await fault.run(round, orders)
    const drainMs = await round.drain(drainTimeoutMs)
    result.longestGapMs = Math.max(result.longestGapMs, await gap.stop())
    result.longestDrainMs = Math.max(result.longestDrainMs, drainMs)
    await judge(fault, round, seed, result)
  } finally {
    for (const work of undo) await work()
  }
}

async function judge(fault: Fault, round: Round, seed: number, result: FaultResult): Promise<void> {
  // A source that cannot be read while a process is paused can be read a moment later.
  const report = await retryUntil(() => round.check())
  const { findings } = await retryUntil(() => round.verify())
  result.rounds += 1
  result.orders += report.orders
  result.lost += report.ordersLost + report.topicLost + report.mailsLost + report.mailsGivenUp + report.lakeLost
  result.topicDoubles += report.topicDoubled
  result.lakeDoubles += report.lakeDoubles
  result.mailDoubles += report.mailDoubles
  result.wrongStock += report.wrongStock
  const { ordersLost, topicLost, topicDoubled, mailsLost, mailsGivenUp, lakeLost, lakeDoubles, wrongStock } = report
  const mailDoubles = fault.mayRepeatMails ? 0 : report.mailDoubles
  const counts = { ordersLost, topicLost, topicDoubled, mailsLost, mailsGivenUp, mailDoubles, lakeLost, lakeDoubles, wrongStock }
  for (const [name, count] of Object.entries(counts)) {
    if (count > 0) result.complaints.push(`seed ${seed}: independent check: ${name} ${count}`)
  }
  for (const { place, kind, count, examples } of findings) {
    result.complaints.push(`seed ${seed}: storefront verify: ${place} ${kind} ${count} (${examples[0]})`)
  }
}

// The interval of checks. Each costs a query on both sides, and times are reported in tenths of a second.
const LOOK_MS = 100

function watchGap(round: Round): { stop(): Promise<number> } {
  let [longest, since, seen, isWatching] = [0, performance.now(), -1, true]
  const watching = (async () => {
    while (isWatching) {
      const counts = await lookAtTopic(round).catch(() => null)
      const now = performance.now()
      if (counts !== null && (counts.stored !== seen || counts.waiting <= 0)) {
        seen = counts.stored
        since = now
      }
      longest = Math.max(longest, now - since)
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  })()
  return {
    async stop() {
      isWatching = false
      await watching
      return longest
    },
  }
}

async function lookAtTopic(round: Round): Promise<{ stored: number; waiting: number }> {
  const versions = await round.countVersions()
  const stored = await round.countMessages()
  return { stored, waiting: versions - stored }
}

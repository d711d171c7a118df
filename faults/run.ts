import { parseArgs } from 'node:util'
import { globalSetup, globalTeardown } from '../test/global-setup.ts'
import type { Fault } from './fault.ts'
import { FAULTS } from './faults.ts'
import { Skipped } from './lake.ts'
import { type FaultResult, runFault } from './run-fault.ts'
import { writeTable } from './write-table.ts'

const ROUNDS = 20
const LANES = 3
const ORDERS = 40
const RARE = FAULTS.flatMap(({ name, rounds }) =>
  rounds === undefined ? [] : `${name} ${rounds === 1 ? 'once' : `${rounds} times`}`,
).join(', ')
const USAGE = `usage: npm run faults -- [--only NAME]… [--rounds N] [--seed N] [--lanes N] [--write]

  runs every fault ${ROUNDS} times, but ${RARE}, and writes the table of docs/delivery.md

  --only    this fault, by its name, instead of all
  --rounds  how often each
  --seed    of the first round; printed with each
  --lanes   how many faults run side by side, since most of a round is waiting; ${LANES} unless said otherwise
  --write   writes the table also when not all was run: the rows of other faults stay`

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    rounds: { type: 'string' },
    seed: { type: 'string' },
    lanes: { type: 'string' },
    write: { type: 'boolean' },
    help: { type: 'boolean' },
  },
})
if (values.help) {
  console.log(USAGE)
  process.exit()
}
const chosen = FAULTS.filter((fault) => values.only === undefined || values.only.includes(fault.name))
if (chosen.length === 0) throw new Error(`--only must be one of ${FAULTS.map(({ name }) => name).join(', ')}`)
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const lanes = Number(values.lanes ?? LANES)

await globalSetup()
const results: FaultResult[] = []
const skipped: string[] = []
try {
  const together = chosen.filter(({ isAlone }) => !isAlone)
  const nextOf = (faults: Fault[]) => async () => {
    for (let fault = faults.shift(); fault !== undefined; fault = faults.shift()) await attempt(fault)
  }
  await Promise.all(Array.from({ length: lanes }, nextOf(together)))
  await nextOf(chosen.filter(({ isAlone }) => isAlone))()
} finally {
  await globalTeardown()
}
const isWhole = values.only === undefined && values.rounds === undefined
if (isWhole || values.write) writeTable(results, skipped, { seed, lanes, isWhole })
for (const line of skipped) console.log(`skipped: ${line}`)
const complaints = results.flatMap((result) => result.complaints.map((complaint) => `${result.name}: ${complaint}`))
for (const complaint of complaints) console.log(complaint)
console.log(complaints.length === 0 ? `green: ${results.length} faults, first seed ${seed}` : `${complaints.length} complaints`)
process.exit(complaints.length === 0 && skipped.length === 0 ? 0 : 1)

async function attempt(fault: Fault): Promise<void> {
  const rounds = values.rounds === undefined ? (fault.rounds ?? ROUNDS) : Number(values.rounds)
  try {
    const result = await runFault(fault, { rounds, orders: fault.ordersPerRound ?? ORDERS, seed, log: console.log })
    results.push(result)
    console.log(JSON.stringify(result))
  } catch (error) {
    if (!(error instanceof Skipped)) throw error
    skipped.push(`${fault.name}: ${error.message}`)
  }
}

import { parseArgs } from 'node:util'
import { globalTeardown, setUp, type TestPostgres } from '../test/global-setup.ts'
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
const USAGE = `usage: npm run faults -- [--only NAME]… [--rounds N] [--seed N] [--lanes N] [--postgres KIND] [--write]
       npm run faults -- --list

  runs every fault ${ROUNDS} times, but ${RARE}, and writes the table of docs/inside/faults.md

  --list    prints the names of the faults
  --only    this fault, by its name, instead of all
  --rounds  how often each
  --seed    of the first round; printed with each
  --lanes   how many faults run side by side, since most of a round is waiting; ${LANES} unless said otherwise
  --postgres  defaults: the embedded PostgreSQL with PostgreSQL's default settings, on a disk that syncs. debian:
            Debian's PostgreSQL with its settings, without the faults that start an embedded one. Neither writes the table
  --write   writes the table also when not all was run: the rows of other faults stay`

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    rounds: { type: 'string' },
    seed: { type: 'string' },
    lanes: { type: 'string' },
    postgres: { type: 'string', default: 'tests' },
    write: { type: 'boolean' },
    list: { type: 'boolean' },
    help: { type: 'boolean' },
  },
})
if (values.help) {
  console.log(USAGE)
  process.exit()
}
const names = FAULTS.map(({ name }) => name)
if (values.list) {
  console.log(names.join('\n'))
  process.exit()
}
const { postgres } = values
if (!isKind(postgres)) refuse('--postgres must be defaults or debian')
const unknown = values.only?.filter((name) => !names.includes(name)) ?? []
if (unknown.length > 0) refuse(`no fault is named ${unknown.join(', ')}; --only takes one of ${names.join(', ')}`)
process.env.FAULTS_POSTGRES = postgres
const named = FAULTS.filter((fault) => values.only === undefined || values.only.includes(fault.name))
const chosen = named.filter((fault) => postgres !== 'debian' || !fault.ownsPostgres)
if (chosen.length === 0) refuse('--postgres debian leaves out the named faults, because they start an embedded PostgreSQL')
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const lanes = Number(values.lanes ?? LANES)

await setUp(postgres)
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
if (postgres === 'tests' && (isWhole || values.write)) writeTable(results, skipped, { seed, lanes, isWhole })
for (const line of skipped) console.log(`skipped: ${line}`)
const complaints = results.flatMap((result) => result.complaints.map((complaint) => `${result.name}: ${complaint}`))
for (const complaint of complaints) console.log(complaint)
console.log(complaints.length === 0 ? `green: ${results.length} faults, first seed ${seed}` : `${complaints.length} complaints`)
process.exit(complaints.length === 0 && skipped.length === 0 ? 0 : 1)

/** Ends the run with one line and the exit status of a wrong argument. */
function refuse(message: string): never {
  console.error(`faults: ${message}`)
  process.exit(2)
}

function isKind(kind: string): kind is TestPostgres {
  return ['tests', 'defaults', 'debian'].includes(kind)
}

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

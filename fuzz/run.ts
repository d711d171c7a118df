import { parseArgs } from 'node:util'
import { globalSetup, globalTeardown } from '../test/global-setup.ts'
import { startFuzzedStore } from './fuzzed-store.ts'
import { fuzz } from './fuzzer.ts'

const SECONDS = 60
const USAGE = `usage: npm run fuzz -- [--seconds N] [--seed N] [--route 'METHOD /path']…

  sends valid and broken requests of every route of openapi.json to a store, and checks each answer and what they leave behind

  --seconds  for how long; ${SECONDS} unless said otherwise
  --seed     of the first request; printed, and the same requests again with it
  --route    this route only, as it is named in the table at the end`

const { values } = parseArgs({
  options: { seconds: { type: 'string' }, seed: { type: 'string' }, route: { type: 'string', multiple: true }, help: { type: 'boolean' } },
})
if (values.help) {
  console.log(USAGE)
  process.exit()
}
const seconds = Number(values.seconds ?? SECONDS)
const seed = Number(values.seed ?? Date.now() % 1_000_000_000)
if (!(seconds > 0) || !Number.isSafeInteger(seed)) throw new Error(USAGE)

const undo: (() => Promise<void> | void)[] = []
await globalSetup()
let isClean = false
try {
  console.log(`seed ${seed}`)
  const store = await startFuzzedStore({ after: (work) => undo.push(work) })
  const report = await fuzz({ store, seed, routes: values.route ?? [], untilMs: Date.now() + seconds * 1_000, log: console.log })
  console.log(report.tally.format())
  const neverDone = report.tally.neverDone()
  if (neverDone.length > 0) console.log(`no valid request succeeded of: ${neverDone.join(', ')}`)
  isClean = report.violations.length === 0
  console.log(
    `${isClean ? 'green' : `${report.violations.length} violations`}: ${report.tally.total} requests, ${report.rounds} rounds, seed ${seed}`,
  )
} finally {
  for (const work of undo.toReversed()) await work()
  await globalTeardown()
}
process.exit(isClean ? 0 : 1)

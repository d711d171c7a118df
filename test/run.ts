import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { fastFolder } from './fast-folder.ts'
import { type Group, LATE } from './run-group.ts'
import { SHARE } from './share.ts'

const USAGE = `usage: npm test -- [PATH]… [OPTION]…
       npm run test:long -- [PATH]… [OPTION]…

  PATH    a folder, such as src/orders, or a file; without one, every folder that has tests
  OPTION  --again: files with a failed test are run a second time, alone, if they are few (as in CI);
          --begin-within=MINUTES: no file begins later (as in CI on a slow machine), and the last line names those that
          did not. Each day another third of the files is first;
          or one of node --test, such as --test-name-pattern 'adds exactly'

  Of a folder, npm test runs all files but *.long.test.ts, and npm run test:long only these. A file that is named runs in both.`

const FOLDERS = ['src', 'test']
// Files at once on two cores: alone, a file occupies less than half of one, because it waits for servers.
const CONCURRENCY = 4
/**
 * Short files that share a process at most: half of what a file costs is to start Node.js and to import the program.
 */
const MAX_FILES_OF_PROCESS = 24
/** An emergency brake for one process. */
const TIMEOUT_MS = 1_800_000
/** More files than these do not fail because the machine is busy. See docs/decisions/tests.md. */
const MAX_FILES_AGAIN = 3

const given = process.argv.slice(2)
const isLong = given[0] === '--long'
if (isLong) given.shift()
if (given.includes('--help')) {
  console.log(USAGE)
  process.exit()
}
const firstOption = given.findIndex((argument) => argument.startsWith('-'))
const options = firstOption === -1 ? [] : given.splice(firstOption)
const runsAgain = options.includes('--again')
const minutes = options.map((option) => /^--begin-within=(\d+)$/.exec(option)?.[1]).find((given) => given !== undefined)
const beginBefore = minutes === undefined ? null : Date.now() + Number(minutes) * 60_000
const ofNode = options.filter((option) => option !== '--again' && !option.startsWith('--begin-within='))
const paths = given.length === 0 ? FOLDERS : given
const unknown = paths.filter((path) => statSync(path, { throwIfNoEntry: false }) === undefined)
if (unknown.length > 0) {
  console.error(`there is no ${unknown.join(', no ')}`)
  process.exit(1)
}
const files = startingAtShare([...new Set(paths.flatMap(listTests).map((file) => relative('', file)))])
if (files.length === 0) {
  console.error(`no ${isLong ? 'long ' : ''}tests in ${paths.join(' ')}`)
  process.exit(1)
}

let runner: ChildProcess | undefined
// The runner stops its server first, and then ends with status 0 when no test has failed so far.
let interruptedBy: NodeJS.Signals | null = null
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interruptedBy = signal
    // Ctrl-C reaches both processes.
    if (signal === 'SIGTERM') runner?.kill(signal)
  })
}

const folder = mkdtempSync(join(tmpdir(), 'storefront-failed-'))
// The folder of everything that tests make: on a disk, databases of their own take twice as long.
const temporary = mkdtempSync(join(fastFolder(), 'storefront-run-'))
// Tests also run programs as other users.
chmodSync(temporary, 0o1777)
process.env.TMPDIR = temporary
process.on('exit', () => {
  // After an interruption servers may still write there for a moment.
  for (const made of [folder, temporary]) rmSync(made, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
})
let { status, again } = await run(files, CONCURRENCY, beginBefore)
if (runsAgain && again.length > 0 && again.length <= MAX_FILES_AGAIN) {
  console.log(`\nℹ again ${again.join(' ')}`)
  ;({ status } = await run(again, 1, null))
  if (status === 0) console.log(`\nfailed beside other tests, and passed alone: ${again.join(' ')}`)
}
process.exit(status)

/** A file failed unless its outermost test passed: a process may end before all its files ran, also with status 0. */
async function run(these: string[], concurrency: number, beginBefore: number | null): Promise<{ status: number; again: string[] }> {
  const list = join(folder, 'outermost')
  const settings = [
    `--test-global-setup=${here('global-setup.ts')}`,
    `--test-concurrency=${concurrency}`,
    `--test-timeout=${TIMEOUT_MS}`,
    ...['--test-reporter=spec', '--test-reporter-destination=stdout'],
    ...[`--test-reporter=./${here('outermost-tests.ts')}`, `--test-reporter-destination=${list}`],
    ...ofNode,
  ]
  // With another option, such as a pattern, node would choose among whole files.
  const isGrouped = ofNode.length === 0
  const taken = mkdtempSync(join(folder, 'taken-'))
  const max = isLong || concurrency === 1 ? 1 : MAX_FILES_OF_PROCESS
  const files = distribute(these, max)
  const entries = isGrouped ? writeGroups({ files, taken, max, beginBefore }) : these
  runner = spawn(process.execPath, ['--test', ...settings, ...entries], { stdio: 'inherit' })
  const [code, signal] = (await once(runner, 'exit')) as [number | null, NodeJS.Signals | null]
  const cause = interruptedBy ?? signal
  if (cause !== null) return { status: 128 + constants.signals[cause], again: [] }
  if (!isGrouped) return { status: code ?? 1, again: [] }
  const results = readFileSync(list, 'utf8').split('\n').filter(Boolean)
  const late = existsSync(join(taken, LATE)) ? files.filter((_, index) => !existsSync(join(taken, String(index)))) : []
  if (late.length > 0) console.log(`\nnot run, for lack of time: ${late.join(' ')}`)
  const failed = these.filter((file) => !late.includes(file) && !results.includes(`pass ${file}`))
  if (failed.length === 0) return { status: code ?? 1, again: [] }
  console.log(`\nfailed or without a result: ${failed.slice(0, MAX_FILES_OF_PROCESS).join(' ')}`)
  const isMore = results.some((result) => result.startsWith('fail ') && !failed.includes(result.slice('fail '.length)))
  return { status: 1, again: isMore ? [] : failed }
}

/** Files of one room, which are alike, are far from each other. */
function distribute(these: string[], max: number): string[] {
  const count = countGroups(these, max)
  return Array.from({ length: count }, (_, group) => these.filter((_, index) => index % count === group)).flat()
}

function countGroups(files: readonly string[], max: number): number {
  return Math.max(Math.ceil(files.length / max), Math.min(files.length, CONCURRENCY))
}

/** Each process takes the next file that no other one has taken, so that all end at about the same time. */
function writeGroups(run: Group): string[] {
  const program = pathToFileURL(join(import.meta.dirname, 'run-group.ts')).href
  return Array.from({ length: countGroups(run.files, run.max) }, (_, group) => {
    const entry = join(folder, `group-${group + 1}.mjs`)
    writeFileSync(entry, `import { runGroup } from '${program}'\nawait runGroup(${JSON.stringify(run)})\n`)
    return entry
  })
}

/** The files in another order each day: a run that has too little time leaves out others. */
function startingAtShare(sorted: string[]): string[] {
  const first = Math.floor((sorted.length * SHARE.first) / SHARE.step)
  return [...sorted.slice(first), ...sorted.slice(0, first)]
}

function here(file: string): string {
  return relative(process.cwd(), join(import.meta.dirname, file))
}

function listTests(path: string): string[] {
  if (statSync(path).isFile()) return [path]
  return globSync(join(path, '**/*.test.ts'))
    .filter((file) => file.endsWith('.long.test.ts') === isLong)
    .toSorted()
}

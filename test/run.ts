import { spawn } from 'node:child_process'
import { globSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { join, relative } from 'node:path'

const USAGE = `usage: npm test -- [PATH]… [OPTION]…
       npm run test:long -- [PATH]… [OPTION]…

  PATH    a folder, such as src/orders, or a file; without one, every folder that has tests
  OPTION  of node --test, such as --test-name-pattern 'adds exactly'

  Of a folder, npm test runs all files but *.long.test.ts, and npm run test:long only these. A file that is named runs in both.`

const FOLDERS = ['src', 'test']
// Files at once on two cores: a test waits for a server more than for a processor, a long one also starts servers of its own.
const CONCURRENCY = 4
const LONG_CONCURRENCY = 3
/** An emergency brake for one file. */
const TIMEOUT_MS = 900_000

const given = process.argv.slice(2)
const isLong = given[0] === '--long'
if (isLong) given.shift()
if (given.includes('--help')) {
  console.log(USAGE)
  process.exit()
}
const firstOption = given.findIndex((argument) => argument.startsWith('-'))
const options = firstOption === -1 ? [] : given.splice(firstOption)
const paths = given.length === 0 ? FOLDERS : given
const files = paths.flatMap(listTests)
if (files.length === 0) {
  console.error(`no ${isLong ? 'long ' : ''}tests in ${paths.join(' ')}`)
  process.exit(1)
}

const concurrency = isLong ? LONG_CONCURRENCY : CONCURRENCY
const setup = relative(process.cwd(), join(import.meta.dirname, 'global-setup.ts'))
const settings = [`--test-global-setup=${setup}`, `--test-concurrency=${concurrency}`, `--test-timeout=${TIMEOUT_MS}`]
const runner = spawn(process.execPath, ['--test', ...settings, ...options, ...files], { stdio: 'inherit' })
// The runner stops its server first, and then ends with status 0 when no test has failed so far.
let interruptedBy: NodeJS.Signals | null = null
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interruptedBy = signal
    // Ctrl-C reaches both processes.
    if (signal === 'SIGTERM') runner.kill(signal)
  })
}
runner.on('exit', (status, signal) => {
  const cause = interruptedBy ?? signal
  process.exit(cause === null ? (status ?? 1) : 128 + constants.signals[cause])
})

function listTests(path: string): string[] {
  const entry = statSync(path, { throwIfNoEntry: false })
  if (entry === undefined) throw new Error(`${path} does not exist`)
  if (entry.isFile()) return [path]
  return globSync(join(path, '**/*.test.ts')).filter((file) => file.endsWith('.long.test.ts') === isLong)
}

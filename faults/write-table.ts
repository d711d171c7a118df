import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { PROGRAM_PATH } from '../test/programs.ts'
import { FAULTS } from './faults.ts'
import type { FaultResult } from './run-fault.ts'

const FILE = new URL('../docs/inside/faults.md', import.meta.url)
const BEGIN = '<!-- faults: written by npm run faults -->'
const END = '<!-- end of faults -->'
const HEAD = [
  '| fault | repetitions | orders | lost | duplicate rows | duplicate mails | longest time without service | time to drain |',
  '|---|---|---|---|---|---|---|---|',
]
/** A line with the runs of one day and one set of versions, and each run in it: `FAULTS SEED (LANES)`. */
const RUNS = /^- (run on .*); first seed \(lanes\): (.*)$/
const RUN = /^(.*) (\d+ \(\d+\))$/
const ALL = 'all faults'
const NATS_SERVER = 'nats-server'

/** The description of a run for the list below the table. */
export interface Run {
  /** The seed of each fault's first round. */
  seed: number
  /** The number of faults that run side by side. */
  lanes: number
  /** The date as `YYYY-MM-DD`; today by default. */
  date?: string
  /** Whether every fault was run, so the lines of earlier runs are removed. */
  isWhole: boolean
}

/**
 * Writes the results into docs/inside/faults.md, a row for each fault in the order of the list. Rows of other faults
 * stay.
 */
export function writeTable(results: readonly FaultResult[], skipped: readonly string[], run: Run): void {
  const text = readFileSync(FILE, 'utf8')
  const [before = '', rest = ''] = text.split(BEGIN)
  const [old = '', after = ''] = rest.split(END)
  // A line that continues the previous one is indented.
  const lines = old.replaceAll('\n  ', ' ').split('\n')
  const table = toTable(lines, results)
  const runs = toRuns(lines, results, run)
  const notes = skipped.map((line) => `- skipped: ${line}`)
  writeFileSync(FILE, [before, BEGIN, '\n', [...table, '', ...[...runs, ...notes].map(wrap)].join('\n'), '\n', END, after].join(''))
}

/** Wraps an item to lines of at most 120 columns. */
function wrap(item: string): string {
  return (item.match(/.{1,118}(?: |$)/g) ?? [item]).map((line) => line.trimEnd()).join('\n  ')
}

function toTable(old: readonly string[], results: readonly FaultResult[]): string[] {
  const rows = new Map(old.filter((line) => line.startsWith('| ')).map((line) => [line.split(' | ')[0]?.slice(2), line]))
  for (const result of results) rows.set(result.title, toRow(result))
  return [...HEAD, ...FAULTS.flatMap(({ title }) => rows.get(title) ?? [])]
}

function toRow({ title, rounds, orders, lost, lakeDoubles, mailDoubles, longestGapMs, longestDrainMs }: FaultResult): string {
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`
  return `| ${title} | ${rounds} | ${orders} | ${lost} | ${lakeDoubles} | ${mailDoubles} | ${seconds(longestGapMs)} | ${seconds(longestDrainMs)} |`
}

/**
 * Makes a line for the runs of each day and versions whose rows are in the table. A later run applies to the faults
 * that it names.
 */
function toRuns(old: readonly string[], results: readonly FaultResult[], run: Run): string[] {
  const { seed, lanes, isWhole, date = new Date().toISOString().slice(0, 10) } = run
  const names = results.map(({ name }) => name)
  const runs = new Map<string, string[]>()
  for (const line of isWhole ? [] : old) {
    const [, where, list = ''] = RUNS.exec(line) ?? []
    if (where !== undefined)
      runs.set(
        where,
        list.split('; ').flatMap((earlier) => withoutFaults(earlier, names)),
      )
  }
  const where = `run on ${date}, Node ${process.version}, ${natsVersion()}`
  runs.set(where, [...(runs.get(where) ?? []), `${isWhole ? ALL : names.join(', ')} ${seed} (${lanes})`])
  return [...runs].filter(([, list]) => list.length > 0).map(([each, list]) => `- ${each}; first seed (lanes): ${list.join('; ')}`)
}

/** The run without the faults that were run again. Empty if none is left. */
function withoutFaults(run: string, names: readonly string[]): string[] {
  const [, faults, details] = RUN.exec(run) ?? []
  const left = faults?.split(', ').filter((name) => !names.includes(name)) ?? []
  return left.length === 0 ? [] : [`${left.join(', ')} ${details}`]
}

function natsVersion(): string {
  const { stdout } = spawnSync(NATS_SERVER, ['--version'], { encoding: 'utf8', env: { ...process.env, PATH: PROGRAM_PATH } })
  return stdout?.trim().replace(': v', ' ') || `no ${NATS_SERVER}`
}

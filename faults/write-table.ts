import { readFileSync, writeFileSync } from 'node:fs'
import { FAULTS } from './faults.ts'
import type { FaultResult } from './run-fault.ts'

const FILE = new URL('../docs/delivery.md', import.meta.url)
const BEGIN = '<!-- faults: written by npm run faults -->'
const END = '<!-- end of faults -->'

/** Puts the results into docs/delivery.md, a row for each fault in the order of the list; rows of faults that were not run stay. */
export function writeTable(results: readonly FaultResult[], skipped: readonly string[]): void {
  const text = readFileSync(FILE, 'utf8')
  const [before = '', rest = ''] = text.split(BEGIN)
  const [old = '', after = ''] = rest.split(END)
  const rows = new Map(
    old
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(1)
      .map((line) => [line.split(' | ')[0]?.slice(2) ?? '', line]),
  )
  for (const result of results) rows.set(result.title, toRow(result))
  const table = [
    '| fault | repetitions | orders | lost | lake doubles | mail doubles | longest time without service | time to drain |',
    '|---|---|---|---|---|---|---|---|',
    ...FAULTS.flatMap(({ title }) => rows.get(title) ?? []),
  ]
  const notes = skipped.map((line) => `Skipped: ${line}\n`)
  writeFileSync(FILE, [before, BEGIN, '\n', table.join('\n'), '\n', ...notes, END, after].join(''))
}

function toRow({ title, rounds, orders, lost, lakeDoubles, mailDoubles, longestGapMs, longestDrainMs }: FaultResult): string {
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`
  return `| ${title} | ${rounds} | ${orders} | ${lost} | ${lakeDoubles} | ${mailDoubles} | ${seconds(longestGapMs)} | ${seconds(longestDrainMs)} |`
}

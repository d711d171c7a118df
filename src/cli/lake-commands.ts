import { doingOfCommand, recordActivity } from '../activity/record-activity.ts'
import { openLake } from '../app/open-lake.ts'
import { compactLake } from '../lake/compact-lake.ts'
import { withLakeLock } from '../lake/lake-lock.ts'
import { queryLake } from '../lake/lake-query.ts'
import type { Contexts } from './command.ts'
import { formatJson, formatTable } from './format-table.ts'
import { withProgress } from './progress.ts'

/** Runs SQL over the lake and prints the rows. Needs no server: the lake is files. */
export async function runQuery(
  { lake, terminal }: Contexts['lake'],
  text: string,
  { json, ...options }: { allowFiles: boolean; json: boolean },
): Promise<number> {
  const result = await queryLake(lake, text, options)
  terminal.out(json ? formatJson(result) : formatTable(result))
  return 0
}

/** Merges the small files of one day, or of every day before today. Status 1 when a day could not be merged. */
export async function compact({ config, terminal, addresses, pool }: Contexts['database'], date: string | undefined): Promise<number> {
  const today = new Date().toISOString().slice(0, 10)
  await recordActivity(pool, doingOfCommand('lake compact'), {
    subjectType: 'lake',
    subjectId: null,
    before: null,
    after: { date: date ?? null },
  })
  const store = await openLake(config)
  try {
    const report = await withProgress('Merging the files of the lake', (progress) =>
      withLakeLock(addresses.api, (assertAlone) =>
        compactLake({
          store,
          assertAlone,
          isWanted: (day) => (date === undefined ? day < today : day === date),
          onMerged({ name, files, rows }) {
            progress.clear()
            terminal.out(`${store.locate(name)}: ${rows} rows of ${files} files`)
          },
        }),
      ),
    )
    for (const failure of report.failures) terminal.err(`not merged: ${failure}`)
    terminal.out(`merged into ${report.merged} files, deleted ${report.deleted}`)
    return report.failures.length === 0 ? 0 : 1
  } finally {
    store.close()
  }
}

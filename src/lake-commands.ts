import { openLake } from './app/open-lake.ts'
import { type Command, type Terminal, withDatabase } from './commands.ts'
import type { Config } from './config.ts'
import { formatTable } from './format-table.ts'
import { compactLake } from './pipeline/lake/compact-lake.ts'
import { withLakeLock } from './pipeline/lake/lake-lock.ts'
import { type LakeQueryOptions, queryLake } from './pipeline/lake/lake-query.ts'

/** Runs SQL over the lake and prints a table. Needs no server: the lake is files. */
export async function lakeQueryCommand(config: Config, terminal: Terminal, text: string, options: LakeQueryOptions): Command {
  const store = await openLake(config)
  try {
    terminal.out(formatTable(await queryLake(store, text, options)))
    return 0
  } finally {
    store.close()
  }
}

/** Merges the small files of one day, or of every day before today. Status 1 when a day could not be merged. */
export function lakeCompactCommand(config: Config, terminal: Terminal, date: string | undefined): Command {
  const today = new Date().toISOString().slice(0, 10)
  return withDatabase(config, terminal, async (_, { api: url }) => {
    const store = await openLake(config)
    try {
      const report = await withLakeLock(url, (assertAlone) =>
        compactLake({
          store,
          assertAlone,
          isWanted: (day) => (date === undefined ? day < today : day === date),
          onMerged: ({ name, files, rows }) => terminal.out(`${store.locate(name)}: ${rows} rows of ${files} files`),
        }),
      )
      for (const failure of report.failures) terminal.err(`not merged: ${failure}`)
      terminal.out(`merged into ${report.merged} files, deleted ${report.deleted}`)
      return report.failures.length === 0 ? 0 : 1
    } finally {
      store.close()
    }
  })
}

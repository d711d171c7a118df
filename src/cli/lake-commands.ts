import { auditContextOfCommand, recordActivity } from '../activity/record-activity.ts'
import { openLake } from '../app/open-lake.ts'
import { counted } from '../counted.ts'
import { OperatorError } from '../errors.ts'
import { compactLake } from '../lake/compact-lake.ts'
import { settleMoved } from '../lake/iceberg/event-table.ts'
import { endLostSnapshots, expireSnapshots } from '../lake/iceberg/expire-snapshots.ts'
import { CATALOGUE_TABLES } from '../lake/iceberg/lake-table.ts'
import { TableStore } from '../lake/iceberg/table-store.ts'
import { writeDerivedTables } from '../lake/iceberg/write-derived-tables.ts'
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
  await recordActivity(pool, auditContextOfCommand('lake compact'), {
    subjectType: 'lake',
    subjectId: null,
    before: null,
    after: { date: date ?? null },
  })
  const store = await openLake(config)
  try {
    const report = await withProgress('Merging the files of the lake', (progress) =>
      withLakeLock(addresses.api, async () => {
        const merged = await compactLake({
          store,
          isWanted: (day) => (date === undefined ? day < today : day === date),
          onMerged({ name, files, rows }) {
            progress.clear()
            terminal.out(`${store.locate(name)}: ${counted(rows, 'row')} of ${counted(files, 'file')}`)
          },
        })
        await writeDerivedTables(store).catch((error: Error) => merged.failures.push(`tables: ${error.message.split('\n')[0]}`))
        return merged
      }),
    )
    for (const failure of report.failures) terminal.err(`not merged: ${failure}`)
    terminal.out(`merged into ${counted(report.merged, 'file')}`)
    return report.failures.length === 0 ? 0 : 1
  } finally {
    store.close()
  }
}

const KEEP_HOURS = 120
const HOUR_MS = 3_600_000

/** Writes the tables of the newest state again. Status 1 when a lake file that they need is damaged or missing. */
export async function updateTables({ lake, terminal }: Pick<Contexts['lake'], 'lake' | 'terminal'>): Promise<number> {
  let written = 0
  let isWhole = true
  try {
    await settleMoved(lake, new Date())
    written = await writeDerivedTables(lake, { checksFiles: true })
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error
    terminal.err(`tables of the newest state are not written again: ${error.message}`)
    isWhole = false
  }
  let ended = 0
  for (const table of CATALOGUE_TABLES) {
    ended += await endLostSnapshots(lake, table)
    await new TableStore(lake, table.name).renewHint()
  }
  if (ended > 0) terminal.out(`ended ${counted(ended, 'snapshot')} that cannot be read`)
  terminal.out(`${counted(written, 'table')} written again`)
  return isWhole ? 0 : 1
}

/** Ends the snapshots of every table that are older than this number of hours. */
export async function expireOldSnapshots({ config, terminal, pool }: Contexts['database'], hours = KEEP_HOURS): Promise<number> {
  await recordActivity(pool, auditContextOfCommand('lake expire-snapshots'), {
    subjectType: 'lake',
    subjectId: null,
    before: null,
    after: { keep_hours: hours },
  })
  const store = await openLake(config)
  try {
    // A snapshot of this very moment is older than the next one.
    const before = new Date(Date.now() - hours * HOUR_MS + (hours === 0 ? HOUR_MS : 0))
    for (const table of CATALOGUE_TABLES) {
      const { snapshots, files } = await expireSnapshots(store, table, before)
      terminal.out(`${table.name}: ended ${counted(snapshots, 'snapshot')}, deleted ${counted(files, 'file')}`)
    }
    return 0
  } finally {
    store.close()
  }
}

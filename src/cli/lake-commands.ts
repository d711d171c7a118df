import { auditContextOfCommand, recordActivity } from '../activity/record-activity.ts'
import { openLake } from '../app/open-lake.ts'
import { counted } from '../counted.ts'
import { OperatorError } from '../errors.ts'
import { REMEDY } from '../lake/find-damage.ts'
import { commitEvents } from '../lake/iceberg/commit-events.ts'
import { compactWithTables } from '../lake/iceberg/compact-with-tables.ts'
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
      withLakeLock(addresses.api, (assertAlone) =>
        compactWithTables({
          store,
          assertAlone,
          // `lake tables` may have written them: then their files must not be deleted under them.
          isForExisting: config.lakeTableSeconds === 0,
          isWanted: (day) => (date === undefined ? day < today : day === date),
          onMerged({ name, files, rows }) {
            progress.clear()
            terminal.out(`${store.locate(name)}: ${counted(rows, 'row')} of ${counted(files, 'file')}`)
          },
        }),
      ),
    )
    for (const failure of report.failures) terminal.err(`not merged: ${failure}`)
    terminal.out(`merged into ${counted(report.merged, 'file')}, deleted ${report.deleted}`)
    return report.failures.length === 0 ? 0 : 1
  } finally {
    store.close()
  }
}

const KEEP_HOURS = 120
const HOUR_MS = 3_600_000

/** Status 1 when a lake file is damaged or missing, whose events the tables then lack. */
export async function updateTables({ lake, terminal }: Pick<Contexts['lake'], 'lake' | 'terminal'>): Promise<number> {
  const lost: string[] = []
  const { snapshots, damaged } = await commitEvents(lake, { checksFiles: true, onLost: (name) => lost.push(name) })
  for (const [name, reason] of damaged) terminal.err(`not in the table: ${lake.locate(name)}: ${reason}`)
  for (const name of lost) terminal.err(`no more in the table: ${lake.locate(name)} is gone, and no other file has its events; ${REMEDY}`)
  let written = 0
  let isWhole = damaged.size + lost.length === 0
  try {
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
  terminal.out(`${counted(snapshots, 'new snapshot')} of events, ${counted(written, 'table')} written again`)
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
    for (const { name } of CATALOGUE_TABLES) {
      const { snapshots, files } = await expireSnapshots(new TableStore(store, name), before)
      terminal.out(`${name}: ended ${counted(snapshots, 'snapshot')}, deleted ${counted(files, 'file')}`)
    }
    return 0
  } finally {
    store.close()
  }
}

import { auditContextOfCommand, recordActivity } from '../activity/record-activity.ts'
import { openLake } from '../app/open-lake.ts'
import { counted } from '../counted.ts'
import { withFreeLakeLock } from '../lake/lake-lock.ts'
import { queryLake } from '../lake/lake-query.ts'
import { KEEP_HOURS, maintainLake } from '../lake/maintain-lake.ts'
import type { Contexts } from './command.ts'
import { formatJson, formatTable } from './format-table.ts'
import { withProgress } from './progress.ts'

/** Queries the lake. It needs no server, because the lake consists of files. */
export async function runQuery(
  { lake, terminal }: Contexts['lake'],
  text: string,
  { json, ...options }: { allowFiles: boolean; json: boolean },
): Promise<number> {
  const result = await queryLake(lake, text, options)
  terminal.out(json ? formatJson(result) : formatTable(result))
  return 0
}

export async function maintain(
  { config, terminal, addresses, pool }: Contexts['database'],
  keepHours: number = KEEP_HOURS,
): Promise<number> {
  await recordActivity(pool, auditContextOfCommand('lake maintain'), {
    subjectType: 'lake',
    subjectId: null,
    before: null,
    after: { keep_hours: keepHours },
  })
  const store = await openLake(config)
  try {
    const { merged, written, snapshots, files, failures } = await withProgress('Maintaining the lake', (progress) =>
      withFreeLakeLock(addresses.api, () =>
        maintainLake({
          ...{ store, keepHours, url: addresses.api },
          onMerged({ name, files, rows }) {
            progress.clear()
            terminal.out(`${store.locate(name)}: ${counted(rows, 'row')} of ${counted(files, 'file')}`)
          },
        }),
      ),
    )
    for (const failure of failures) terminal.err(`not done: ${failure}`)
    terminal.out(`merged into ${counted(merged, 'file')}; wrote ${counted(written, 'table')} again`)
    terminal.out(`ended ${counted(snapshots, 'snapshot')}, deleted ${counted(files, 'file')}`)
    return failures.length === 0 ? 0 : 1
  } finally {
    store.close()
  }
}

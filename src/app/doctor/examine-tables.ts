import type { Config } from '../../config.ts'
import { counted } from '../../counted.ts'
import { findLateFiles } from '../../lake/iceberg/commit-events.ts'
import { readBase } from '../../lake/iceberg/commit-snapshot.ts'
import { CATALOGUE_TABLES } from '../../lake/iceberg/lake-table.ts'
import { TableStore } from '../../lake/iceberg/table-store.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { openLake } from '../open-lake.ts'
import { check, type Finding, ok, warning } from './finding.ts'

const NAME = 'lake tables'
const REMEDY = 'run storefront lake tables'
/** How long a commit may take beyond `LAKE_TABLE_SECONDS`. */
const SLACK_MS = 60_000

/**
 * The Iceberg lake tables: whether their newest snapshot can be read here, and whether the event tables have all files
 * that are due.
 */
export function examineTables(config: Config, timeoutMs: number, now: () => number): Promise<Finding[]> {
  const remedy = 'see the line of the lake; storefront verify reads it without a bound'
  return check(NAME, { remedy, timeoutMs }, async (signal) => {
    const lake = await openLake(config)
    signal.addEventListener('abort', () => lake.close())
    try {
      return await examine(lake, config.lakeTableSeconds, now())
    } finally {
      lake.close()
    }
  })
}

async function examine(lake: LakeStore, seconds: number, now: number): Promise<Finding[]> {
  const findings: Finding[] = []
  const written: string[] = []
  for (const { name } of CATALOGUE_TABLES) {
    const { state, metadata } = await readBase(new TableStore(lake, name))
    if (state.newest !== null) written.push(name)
    if (state.newest !== null && metadata === null)
      findings.push(warning(NAME, `${name} is damaged, or its metadata name another place`, REMEDY))
    findings.push(...state.damaged.map((reason) => warning(NAME, reason, REMEDY)))
  }
  if (findings.length > 0) return findings
  const late = seconds === 0 ? [] : await findLateFiles(lake, now - seconds * 1_000 - SLACK_MS)
  if (late.length > 0)
    return [...Map.groupBy(late, ({ table }) => table)].map(([table, files]) =>
      warning(
        NAME,
        `${table} lacks ${counted(files.length, 'file')} of the lake, such as ${files[0]?.file}`,
        `${REMEDY}; the log of the role lake has the reason`,
      ),
    )
  return [ok(NAME, written.length === 0 ? 'none was written yet' : `${written.join(', ')} can be read`)]
}

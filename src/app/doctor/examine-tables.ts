import type { Config } from '../../config.ts'
import { OperatorError } from '../../errors.ts'
import { readBase } from '../../lake/iceberg/commit-snapshot.ts'
import { eventTableOf, readSnapshot } from '../../lake/iceberg/event-table.ts'
import { CATALOGUE_TABLES } from '../../lake/iceberg/lake-table.ts'
import { TableStore } from '../../lake/iceberg/table-store.ts'
import { DATASET_NAMES } from '../../lake/lake-names.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { openLake } from '../open-lake.ts'
import { check, type Finding, ok, splitRemedy, warning } from './finding.ts'

const NAME = 'lake tables'
const REMEDY = 'run storefront lake maintain'
const REPAIR = 'run storefront lake repair'

export function examineTables(config: Config, timeoutMs: number): Promise<Finding[]> {
  const remedy = 'see the line of the lake; storefront verify reads it without a time limit'
  return check(NAME, { remedy, timeoutMs }, async (signal) => {
    const lake = await openLake(config)
    signal.addEventListener('abort', () => lake.close())
    try {
      return await examine(lake)
    } finally {
      lake.close()
    }
  })
}

async function examine(lake: LakeStore): Promise<Finding[]> {
  const findings: Finding[] = []
  const written: string[] = []
  for (const { name, dataset } of CATALOGUE_TABLES) {
    const isOfEvents = name === eventTableOf(dataset).name
    const { state, metadata, isMoved } = await readBase(new TableStore(lake, name))
    if (state.newest !== null) written.push(name)
    const remedy = isOfEvents && !isMoved ? REPAIR : REMEDY
    if (state.newest !== null && (metadata === null || isMoved))
      findings.push(warning(NAME, `${name} is damaged, or its metadata name another place`, remedy))
    findings.push(...state.damaged.map((reason) => warning(NAME, reason, remedy)))
  }
  for (const dataset of findings.length > 0 ? [] : DATASET_NAMES) {
    try {
      await readSnapshot(lake, dataset)
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error
      const { found, remedy } = splitRemedy(error.message, REPAIR)
      findings.push(warning(NAME, found, remedy))
    }
  }
  if (findings.length > 0) return findings
  return [ok(NAME, written.length === 0 ? 'none was written yet' : `${written.join(', ')} can be read`)]
}

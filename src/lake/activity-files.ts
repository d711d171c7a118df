import { type Sql, sql } from '../db/sql.ts'
import { OperatorError } from '../errors.ts'
import { checkChecksum } from './lake-checksum.ts'
import { parquetRows } from './lake-database.ts'
import { padSequence } from './lake-names.ts'
import type { LakeFile, LakeStore } from './lake-store.ts'
import { queryDuckDB } from './query-duckdb.ts'

const FOLDER = 'activities/'
/** `activities/after-<id>.parquet` has the activities after this id. See docs/decisions/0210. */
const NAME = /^activities\/after-(\d{16})\.parquet$/

/** Columns of the files, by DuckDB type. `before` and `after` are JSON. Only ever added to. */
export const ACTIVITY_COLUMNS = {
  id: sql`BIGINT`,
  // `at` would have to be quoted in DuckDB.
  recorded_at: sql`TIMESTAMPTZ`,
  actor_type: sql`VARCHAR`,
  actor_id: sql`VARCHAR`,
  action: sql`VARCHAR`,
  subject_type: sql`VARCHAR`,
  subject_id: sql`VARCHAR`,
  before: sql`VARCHAR`,
  after: sql`VARCHAR`,
  request_id: sql`VARCHAR`,
} as const satisfies Readonly<Record<string, Sql>>

/** The end of the lake's activities cannot be known, because their newest file is damaged. */
class ActivitiesUnreadable extends OperatorError {
  override readonly name = 'ActivitiesUnreadable'
}

export function nameAfter(id: number): string {
  return `${FOLDER}after-${padSequence(id)}.parquet`
}

function isActivityFile({ name }: Pick<LakeFile, 'name'>): boolean {
  return NAME.test(name)
}

/** The files in order of id. They are only ever added, so one listing is enough. */
export async function listActivityFiles(store: LakeStore): Promise<LakeFile[]> {
  return (await store.list(FOLDER)).filter(isActivityFile)
}

/** The greatest id in the lake, 0 for none. Throws ActivitiesUnreadable. */
export async function findActivityEnd(store: LakeStore): Promise<number> {
  const newest = (await listActivityFiles(store)).at(-1)
  if (newest === undefined) return 0
  const after = Number(NAME.exec(newest.name)?.[1])
  const end = await store.withCopies([newest], async ([path = '']) => {
    if ((await checkChecksum(path)) !== 'right') return null
    const rows = await queryDuckDB(sql`select max(id), min(id) > ${after} from ${parquetRows([path])}`)
    return rows[0]?.[1] === true ? Number(rows[0][0]) : null
  })
  if (end !== null) return end
  throw new ActivitiesUnreadable(`${store.locate(newest.name)} is damaged: move it away, and its activities are written again`)
}

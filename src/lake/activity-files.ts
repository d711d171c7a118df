import { type Sql, sql } from '../db/sql.ts'
import { OperatorError } from '../errors.ts'
import { findOtherName } from './find-damage.ts'
import { checkChecksum } from './lake-checksum.ts'
import { ifDamaged, parquetRows } from './lake-database.ts'
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

/** The ids of a file: above `after`, which its name has, up to `last`. Null when it is damaged or has another name than it was written under. */
export async function readActivityRange(store: LakeStore, file: LakeFile): Promise<{ after: number; last: number } | null> {
  const after = Number(NAME.exec(file.name)?.[1])
  return store.withCopies([file], async ([path = '']) => {
    if ((await checkChecksum(path).catch(ifDamaged('wrong' as const))) !== 'right') return null
    if ((await findOtherName(path, file.name)) !== null) return null
    const rows = await queryDuckDB(sql`select max(id), min(id) > ${after} from ${parquetRows([path])}`)
    return rows[0]?.[1] === true ? { after, last: Number(rows[0][0]) } : null
  })
}

/** Where the activities of the lake end. */
export interface ActivityEnd {
  /** The greatest id, 0 for none. */
  id: number
  /** The newest file, as it was when it was read; null for none. */
  newest: LakeFile | null
}

/** Whether the file is there as it was, and none after it. Lists no others. */
async function isNewest(store: LakeStore, known: LakeFile | null): Promise<boolean> {
  if (known === null) return false
  const { name, tag, sizeBytes } = known
  const [now] = await store.list(name)
  if (now?.name !== name || now.tag !== tag || now.sizeBytes !== sizeBytes) return false
  return !(await store.list(FOLDER, name)).some(isActivityFile)
}

/** The end of the lake. Reads the newest file unless it is that of `known`. Throws ActivitiesUnreadable. */
export async function findActivityEnd(store: LakeStore, known: ActivityEnd | null = null): Promise<ActivityEnd> {
  if (known !== null && (await isNewest(store, known.newest))) return known
  const newest = (await listActivityFiles(store)).at(-1) ?? null
  if (newest === null) return { id: 0, newest }
  const range = await readActivityRange(store, newest)
  if (range !== null) return { id: range.last, newest }
  throw new ActivitiesUnreadable(
    `${store.locate(newest.name)} is damaged: run storefront lake repair, and its activities are written again`,
  )
}

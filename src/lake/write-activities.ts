import { join } from 'node:path'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { ACTIVITY_COLUMNS, nameAfter } from './activity-files.ts'
import type { LakeStore } from './lake-store.ts'
import { writeParquet } from './parquet-writer.ts'

const FILE_ROWS = 10_000

/**
 * Writes the activities with an id above `after`, up to `upTo`, into files of at most `fileRows`. `isTaken`: another process has written what
 * follows one of them, and nothing was written after that.
 */
export async function writeActivities(
  { pool, store, fileRows = FILE_ROWS }: { pool: Pool; store: LakeStore; fileRows?: number | undefined },
  after: number,
  upTo: number,
): Promise<{ written: number; isTaken: boolean }> {
  let written = 0
  for (let end = after; end < upTo; ) {
    const { rows } = await pool.query<{ id: number } & Record<string, unknown>>(
      sql`select id, at as recorded_at, actor_type, actor_id, action, subject_type, subject_id, before::text as before, after::text as after, request_id
      from activities
      where id > ${end} and id <= ${upTo}
      order by id
      limit ${fileRows}`,
    )
    const last = rows.at(-1)
    // Only rolled back ids, or those that a restore has lost.
    if (last === undefined) break
    const lines = rows.map((row) => JSON.stringify(row))
    if (!(await storeFile(store, nameAfter(end), lines))) return { written, isTaken: true }
    written += rows.length
    end = last.id
  }
  return { written, isTaken: false }
}

/** False when another process has written the file of this name. */
function storeFile(store: LakeStore, name: string, lines: readonly string[]): Promise<boolean> {
  return store.withWorkspace(async (folder) => {
    const path = join(folder, 'file')
    await writeParquet(path, lines, name, ACTIVITY_COLUMNS)
    return (await store.put(name, path)) === 'stored'
  })
}

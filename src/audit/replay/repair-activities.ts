import type { Pool } from '../../db/pool.ts'
import { listActivityFiles, readActivityRange } from '../../lake/activity-files.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { writeActivities } from '../../lake/write-activities.ts'

export interface ActivityRepair {
  /** New places of the damaged files. */
  setAside: string[]
  /** The number of activities between two files that the lake lacked. */
  written: number
}

/**
 * Sets damaged files of activities aside and writes what is missing between two files from the table, which is never shortened. What comes
 * after the last sound file is left to the role `lake`, which finds the end of the lake by its files.
 */
export async function repairActivities(pool: Pool, store: LakeStore): Promise<ActivityRepair> {
  const setAside: string[] = []
  let [end, written] = [0, 0]
  for (const file of await listActivityFiles(store)) {
    const range = await readActivityRange(store, file)
    if (range === null) {
      setAside.push(await store.setAside(file.name))
      continue
    }
    if (range.after > end) written += (await writeActivities({ pool, store }, end, range.after)).written
    end = Math.max(end, range.last)
  }
  return { setAside, written }
}

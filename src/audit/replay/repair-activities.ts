import type { Pool } from '../../db/pool.ts'
import { listActivityFiles, readActivityRange } from '../../lake/activity-files.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { writeActivities } from '../../lake/write-activities.ts'

/**
 * Sets damaged files of activities aside and writes what is missing between two files from the table, which is never shortened. Returns the
 * number of activities written. What comes after the last sound file is left to the role `lake`, which finds the end of the lake by its files.
 */
export async function repairActivities(pool: Pool, store: LakeStore, onSetAside: (path: string) => void): Promise<number> {
  let written = 0
  let isChanged = true
  // Until nothing is left to do: the role `lake` may have written after a file that is set aside only then.
  while (isChanged) {
    isChanged = false
    let end = 0
    for (const file of await listActivityFiles(store)) {
      const range = await readActivityRange(store, file)
      if (range === null) {
        onSetAside(await store.setAside(file.name))
        isChanged = true
        continue
      }
      if (range.after > end) {
        const added = (await writeActivities({ pool, store }, end, range.after)).written
        written += added
        isChanged ||= added > 0
      }
      end = Math.max(end, range.last)
    }
  }
  return written
}

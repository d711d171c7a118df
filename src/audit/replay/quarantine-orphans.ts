import { findEndOf, lastOf } from '../../lake/lake-end.ts'
import type { DatasetName } from '../../lake/lake-names.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { listLake } from '../../lake/list-files.ts'
import { type EventKey, readKeys } from './rewrite-files.ts'

/**
 * Sets files aside whose names go beyond the end of the lake and of the topic: no sink has written them. Rewritten under such a name, they would
 * move the end of the lake to where no event is. `newestSequence`: reads the newest one of the topic.
 */
export async function quarantineOrphans(
  store: LakeStore,
  dataset: DatasetName,
  newestSequence: () => Promise<number>,
): Promise<{ quarantined: string[]; keys: EventKey[] }> {
  const files = await listLake(store, dataset)
  const end = Math.max(await findEndOf(store, files), await newestSequence())
  const quarantined: string[] = []
  const keys: EventKey[] = []
  for (const file of files.filter((file) => lastOf(file) > end)) {
    keys.push(...(await store.withCopies([file], ([path = '']) => readKeys(path), { isFresh: true })))
    quarantined.push(await store.quarantine(file.name))
  }
  return { quarantined, keys }
}

import { type LiveFile, readSnapshot } from './iceberg/event-table.ts'
import { type DatasetName, prefixOf } from './lake-names.ts'
import { type LakeFile, LakeFileGone, type LakeStore, repeatWhenGone } from './lake-store.ts'

const MAX_ATTEMPTS = 10

export async function listLake(store: LakeStore, dataset: DatasetName = 'orders'): Promise<LiveFile[]> {
  return (await readSnapshot(store, dataset)).files
}

/** The end of a dataset of the lake, 0 for none: it has every event up to this sequence. */
export async function findLakeEnd(store: LakeStore, dataset: DatasetName = 'orders'): Promise<number> {
  return (await readSnapshot(store, dataset)).sequence
}

/**
 * Runs `work` with the files that count and local paths of them, in the order of the snapshot. Repeats it when one is
 * gone, because a reader may be slower than the files of its snapshot are kept.
 */
export async function readLakeFiles<T>(
  store: LakeStore,
  dataset: DatasetName,
  work: (files: LiveFile[], paths: string[]) => Promise<T>,
  choose: (files: LiveFile[]) => LiveFile[] = (files) => files,
): Promise<T> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const files = choose(await listLake(store, dataset))
    return store.withCopies(files, (paths) => work(files, paths))
  })
}

/** Like `readLakeFiles`, without files that are gone although the newest snapshot has them: verify reports those. */
export async function readPresentFiles<T>(
  store: LakeStore,
  dataset: DatasetName,
  work: (paths: string[]) => Promise<T>,
  choose: (files: LiveFile[]) => LiveFile[],
): Promise<T> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const files = choose(await listLake(store, dataset))
    try {
      return await store.withCopies(files, work)
    } catch (error) {
      if (!(error instanceof LakeFileGone)) throw error
    }
    const present = new Set((await store.list(prefixOf(dataset))).map(({ name }) => name))
    // The next attempt has the files of a newer snapshot; the last one those that are left of this.
    const [before, after] = [files, choose(await listLake(store, dataset))].map((some) => some.map(({ name }) => name).join())
    if (before !== after) throw new LakeFileGone('the files of the lake have changed')
    return store.withCopies(
      files.filter(({ name }) => present.has(name)),
      work,
    )
  })
}

/** Local paths of the lake's files, by what is in them. */
export type LakePaths = Record<DatasetName, string[]>

/** Like `readLakeFiles`, with the files of both datasets. */
export async function readAllFiles<T>(store: LakeStore, work: (files: LakeFile[], paths: LakePaths) => Promise<T>): Promise<T> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const orders = await listLake(store, 'orders')
    const catalogue = await listLake(store, 'catalogue')
    const files = [...orders, ...catalogue]
    return store.withCopies(files, (paths) => work(files, { orders: paths.slice(0, orders.length), catalogue: paths.slice(orders.length) }))
  })
}

/** The message with the files' own names in place of those of their copies. */
export function nameFiles(message: string, store: LakeStore, files: readonly LakeFile[], paths: readonly string[]): string {
  return paths.reduce((text, path, index) => text.replaceAll(path, store.locate(files[index]?.name ?? '')), message)
}

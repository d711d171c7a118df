import { type LiveFile, readSnapshot } from './iceberg/event-table.ts'
import { type DatasetName, prefixOf } from './lake-names.ts'
import { type LakeFile, LakeFileGone, type LakeStore, repeatWhenGone } from './lake-store.ts'

const MAX_ATTEMPTS = 10

export async function listLake(store: LakeStore, dataset: DatasetName = 'orders'): Promise<LiveFile[]> {
  return (await readSnapshot(store, dataset)).files
}

export async function findLakeEnd(store: LakeStore, dataset: DatasetName = 'orders'): Promise<number> {
  return (await readSnapshot(store, dataset)).sequence
}

/** Files in the order of the snapshot. Repeats `work` when a file is gone: a slow reader may outlast its snapshot. */
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
    // The next attempt has the files of a newer snapshot. The last attempt has the remaining files of this one.
    const [before, after] = [files, choose(await listLake(store, dataset))].map((some) => some.map(({ name }) => name).join())
    if (before !== after) throw new LakeFileGone('the files of the lake have changed')
    return store.withCopies(
      files.filter(({ name }) => present.has(name)),
      work,
    )
  })
}

export type LakePaths = Record<DatasetName, string[]>

export async function readAllFiles<T>(store: LakeStore, work: (files: LakeFile[], paths: LakePaths) => Promise<T>): Promise<T> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const orders = await listLake(store, 'orders')
    const catalogue = await listLake(store, 'catalogue')
    const files = [...orders, ...catalogue]
    return store.withCopies(files, (paths) => work(files, { orders: paths.slice(0, orders.length), catalogue: paths.slice(orders.length) }))
  })
}

export function nameFiles(message: string, store: LakeStore, files: readonly LakeFile[], paths: readonly string[]): string {
  return paths.reduce((text, path, index) => text.replaceAll(path, store.locate(files[index]?.name ?? '')), message)
}

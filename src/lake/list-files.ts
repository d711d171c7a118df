import { type DatasetName, splitSuperseded } from './lake-names.ts'
import { type LakeFile, type LakeStore, repeatWhenGone } from './lake-store.ts'

const MAX_ATTEMPTS = 10

/**
 * A snapshot of the files of a dataset, including superseded ones; only names greater than `after`. A single listing may miss both a
 * new file and the ones that it replaces. When two in a row are equal, their files existed between them.
 */
export async function listLake(store: LakeStore, dataset: DatasetName = 'orders', after?: string): Promise<LakeFile[]> {
  const prefix = `${dataset}/ingest_date=`
  let before = await store.list(prefix, after)
  for (let attempt = 1; attempt < MAX_ATTEMPTS; attempt++) {
    const now = await store.list(prefix, after)
    if (now.length === before.length && now.every(({ name, tag }, index) => name === before[index]?.name && tag === before[index]?.tag)) {
      return now
    }
    before = now
  }
  throw new Error('the files of the lake keep changing')
}

/**
 * Runs `work` with the current files and local paths of them, in the order of the names. Repeats it when files were
 * replaced meanwhile, so the result contains each row once.
 */
export async function readLakeFiles<T>(
  store: LakeStore,
  dataset: DatasetName,
  work: (files: LakeFile[], paths: string[]) => Promise<T>,
  choose: (files: LakeFile[]) => LakeFile[] = (files) => files,
): Promise<T> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const files = choose(splitSuperseded(await listLake(store, dataset)).current)
    return store.withCopies(files, (paths) => work(files, paths))
  })
}

/** Local paths of the lake's files, by what is in them. */
export type LakePaths = Record<DatasetName, string[]>

/** Like `readLakeFiles`, with the files of both datasets. */
export async function readAllFiles<T>(store: LakeStore, work: (files: LakeFile[], paths: LakePaths) => Promise<T>): Promise<T> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const orders = splitSuperseded(await listLake(store, 'orders')).current
    const catalogue = splitSuperseded(await listLake(store, 'catalogue')).current
    const files = [...orders, ...catalogue]
    return store.withCopies(files, (paths) => work(files, { orders: paths.slice(0, orders.length), catalogue: paths.slice(orders.length) }))
  })
}

/** The message with the files' own names in place of those of their copies. */
export function nameFiles(message: string, store: LakeStore, files: readonly LakeFile[], paths: readonly string[]): string {
  return paths.reduce((text, path, index) => text.replaceAll(path, store.locate(files[index]?.name ?? '')), message)
}

import { listActivityFiles } from './activity-files.ts'
import { splitSuperseded } from './lake-names.ts'
import { type LakeFile, type LakeStore, repeatWhenGone } from './lake-store.ts'

const DATA_PREFIX = 'orders/ingest_date='
const MAX_ATTEMPTS = 10

/**
 * A snapshot of the files, including superseded ones; only names greater than `after`. A single listing may miss both a
 * new file and the ones that it replaces. When two in a row are equal, their files existed between them.
 */
export async function listLake(store: LakeStore, after?: string): Promise<LakeFile[]> {
  let before = await store.list(DATA_PREFIX, after)
  for (let attempt = 1; attempt < MAX_ATTEMPTS; attempt++) {
    const now = await store.list(DATA_PREFIX, after)
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
  work: (files: LakeFile[], paths: string[]) => Promise<T>,
  choose: (files: LakeFile[]) => LakeFile[] = (files) => files,
): Promise<T> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const files = choose(splitSuperseded(await listLake(store)).current)
    return store.withCopies(files, (paths) => work(files, paths))
  })
}

/** As `readLakeFiles`, with the files of activities. `paths` are those of the orders, `activities` the others. */
export async function readAllFiles<T>(
  store: LakeStore,
  work: (files: LakeFile[], paths: string[], activities: string[]) => Promise<T>,
): Promise<T> {
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const orders = splitSuperseded(await listLake(store)).current
    const files = [...orders, ...(await listActivityFiles(store))]
    return store.withCopies(files, (paths) => work(files, paths.slice(0, orders.length), paths.slice(orders.length)))
  })
}

/** The message with the files' own names in place of those of their copies. */
export function nameFiles(message: string, store: LakeStore, files: readonly LakeFile[], paths: readonly string[]): string {
  return paths.reduce((text, path, index) => text.replaceAll(path, store.locate(files[index]?.name ?? '')), message)
}

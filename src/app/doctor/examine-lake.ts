import type { Config } from '../../config.ts'
import { repeatWhenGone, UnsuitableBucket } from '../../lake/lake-store.ts'
import type { S3LakeStore } from '../../lake/s3-store.ts'
import { check, type Finding, ok } from './finding.ts'

const RECENT_DAYS = 60
const DAY_MS = 86_400_000
const LARGEST_BYTES = 8_000_000
const MAX_ATTEMPTS = 3

/**
 * The bucket of the lake: whether it can be listed and read, and refuses to overwrite. No file of the lake is added, changed or removed; into an
 * empty one a probe is written and deleted.
 */
export function examineLake(config: Config, timeoutMs: number): Promise<Finding[]> {
  const { lakeBucket, dataDir } = config
  if (lakeBucket === null) return Promise.resolve([ok('lake', `files in ${dataDir}/lake`)])
  const remedy =
    'check LAKE_URL, S3_ENDPOINT, the region, and that the credentials may list, read and write: The lake in S3, in docs/operations.md'
  return check('lake', { remedy, timeoutMs }, async (signal) => {
    const { S3LakeStore: Store } = await import('../../lake/s3-store.ts')
    const store = new Store({ ...lakeBucket, cacheDirectory: `${dataDir}/lake-cache`, attempts: 2, timeoutMs })
    signal.addEventListener('abort', () => store.close())
    try {
      return await repeatWhenGone(MAX_ATTEMPTS, async () => [await examineFiles(store)])
    } finally {
      store.close()
    }
  })
}

/** Throws LakeFileGone when a merge deletes the examined file meanwhile. */
async function examineFiles(store: S3LakeStore): Promise<Finding> {
  const since = new Date(Date.now() - RECENT_DAYS * DAY_MS).toISOString().slice(0, 10)
  const files = await store.list('orders/', `orders/ingest_date=${since}`)
  const file = files.findLast(({ sizeBytes }) => sizeBytes <= LARGEST_BYTES)
  const place = store.locate('')
  if (file === undefined) await store.assertSuitable()
  // Twice: a file that was deleted between its reading and the offer is accepted the first time.
  else if (!(await store.refusesOverwriting(file.name)) && !(await store.refusesOverwriting(file.name)))
    throw new UnsuitableBucket(`${place} ignores If-None-Match and overwrites files`)
  return ok('lake', `${place} can be listed, read and written, and refuses to overwrite (If-None-Match)`)
}

import { existsSync } from 'node:fs'
import type { Config } from '../../config.ts'
import { dataFolder } from '../../db/embedded/data-folder.ts'
import { repeatWhenGone, UnsuitableBucket } from '../../lake/lake-store.ts'
import { LocalLakeStore } from '../../lake/local-store.ts'
import type { S3LakeStore } from '../../lake/s3-store.ts'
import { check, type Finding, ok } from './finding.ts'

const LARGEST_BYTES = 8_000_000
const MAX_ATTEMPTS = 3
const FOLDER_REMEDY = 'make room on its disk, mount it for writing, or run this as the user of the store'

/** Checks the lake without changing its files. In the folder or an empty bucket, it writes and deletes a probe. */
export function examineLake(config: Config, timeoutMs: number): Promise<Finding[]> {
  const { lakeBucket, dataDir } = config
  if (lakeBucket === null) return check('lake', { remedy: FOLDER_REMEDY, timeoutMs }, () => examineFolder(dataFolder(dataDir).lake))
  const remedy = 'check LAKE_URL, S3_ENDPOINT, the region, and that the credentials may list, read and write: docs/operate/lake.md'
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

async function examineFolder(folder: string): Promise<Finding[]> {
  if (!existsSync(folder)) return [ok('lake', `${folder} does not exist`)]
  await new LocalLakeStore(folder).assertSuitable()
  return [ok('lake', `files in ${folder}, which can be written`)]
}

/** Throws LakeFileGone if the examined file is deleted meanwhile. */
async function examineFiles(store: S3LakeStore): Promise<Finding> {
  const files = await store.list('iceberg/order_events/metadata/snap-')
  const file = files.findLast(({ sizeBytes }) => sizeBytes <= LARGEST_BYTES)
  const place = store.locate('')
  if (file === undefined) await store.assertSuitable()
  // Two attempts, because the first one succeeds if the file was deleted after it was read.
  else if (!(await store.refusesOverwriting(file.name)) && !(await store.refusesOverwriting(file.name)))
    throw new UnsuitableBucket(`${place} ignores If-None-Match and overwrites files`)
  return ok('lake', `${place} can be listed, read and written, and refuses to overwrite (If-None-Match)`)
}

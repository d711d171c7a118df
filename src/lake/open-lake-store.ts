import { join } from 'node:path'
import type { LakeStore } from './lake-store.ts'
import { LocalLakeStore } from './local-store.ts'

/** Opens the lake in a bucket, or in a folder if `bucket` is null. Copies of a bucket's files are kept in `dataDir`. */
export async function openLakeStore({ bucket, directory, dataDir }: LakePlace): Promise<LakeStore> {
  if (bucket === null) return new LocalLakeStore(directory)
  const { S3LakeStore } = await import('./s3-store.ts')
  return new S3LakeStore({ ...bucket, cacheDirectory: join(dataDir, 'lake-cache') })
}

export interface LakePlace {
  bucket: { bucket: string; prefix: string; endpoint: string | null; region: string | null } | null
  directory: string
  dataDir: string
}

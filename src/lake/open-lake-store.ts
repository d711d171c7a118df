import { join } from 'node:path'
import type { LakeStore } from './lake-store.ts'
import { LocalLakeStore } from './local-store.ts'

/** The store of the lake's files: a bucket, or a folder for null. Copies of a bucket's files are in `dataDir`. */
export async function openLakeStore({ bucket, directory, dataDir }: LakePlace): Promise<LakeStore> {
  if (bucket === null) return new LocalLakeStore(directory)
  // Loading AWS's SDK takes a fifth of a second.
  const { S3LakeStore } = await import('./s3-store.ts')
  return new S3LakeStore({ ...bucket, cacheDirectory: join(dataDir, 'lake-cache') })
}

export interface LakePlace {
  bucket: { bucket: string; prefix: string; endpoint: string | null; region: string | null } | null
  directory: string
  dataDir: string
}

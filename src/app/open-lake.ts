import type { Config } from '../config.ts'
import { dataFolder } from '../db/data-folder.ts'
import type { LakeStore } from '../pipeline/lake/lake-store.ts'
import { openLakeStore } from '../pipeline/lake/open-lake-store.ts'

/** The files of the data lake that the settings name. */
export function openLake({ lakeBucket: bucket, dataDir }: Config): Promise<LakeStore> {
  return openLakeStore({ bucket, directory: dataFolder(dataDir).lake, dataDir })
}

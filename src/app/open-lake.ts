import { existsSync } from 'node:fs'
import type { Config } from '../config.ts'
import { dataFolder, hasCluster } from '../db/embedded/data-folder.ts'
import { OperatorError } from '../errors.ts'
import type { LakeStore } from '../lake/lake-store.ts'
import { openLakeStore } from '../lake/open-lake-store.ts'

/** There is no lake where the settings name one. */
class LakeMissing extends OperatorError {
  override readonly name = 'LakeMissing'
}

/** The files of the data lake that the settings name. */
export function openLake({ lakeBucket: bucket, dataDir }: Config): Promise<LakeStore> {
  return openLakeStore({ bucket, directory: dataFolder(dataDir).lake, dataDir })
}

/** As above, for reading only: throws LakeMissing where nothing was ever written and no embedded store is that could have written. */
export async function openExistingLake(config: Config): Promise<LakeStore> {
  const { lakeBucket, databaseAddresses, dataDir } = config
  const folder = dataFolder(dataDir)
  const lake = await openLake(config)
  if (lakeBucket === null && databaseAddresses === null && hasCluster(folder)) return lake
  if (lakeBucket === null ? existsSync(folder.lake) : (await lake.list('')).length > 0) return lake
  lake.close()
  throw new LakeMissing(
    `there is no lake in ${lakeBucket === null ? folder.lake : lake.locate('')}; set DATA_DIR or LAKE_URL to the store's`,
  )
}

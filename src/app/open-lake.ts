import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { dataFolder, hasCluster } from '../db/embedded/data-folder.ts'
import { reasonOf } from '../db/loggable-error.ts'
import { OperatorError } from '../errors.ts'
import { type LakeStore, UnsuitableBucket } from '../lake/lake-store.ts'
import { type LakePlace, openLakeStore } from '../lake/open-lake-store.ts'
import { LakeQueries } from '../lake/run-query.ts'
import { withinMs } from '../within-ms.ts'

export function openLake(config: Config): Promise<LakeStore> {
  return openLakeStore(lakePlace(config))
}

const PROBE_MS = 5_000

/** Opens the lake. Throws UnsuitableBucket. A bucket that does not answer in time is checked before its first file. */
export async function openSuitableLake(config: Config, logger: Logger): Promise<LakeStore> {
  const lake = await openLake(config)
  try {
    const isChecked = await withinMs(
      PROBE_MS,
      lake.assertSuitable().then(() => true),
      false,
    )
    if (!isChecked) logger.warn({ seconds: PROBE_MS / 1_000 }, 'the lake does not answer: events wait in the topic')
  } catch (error) {
    if (error instanceof UnsuitableBucket) {
      lake.close()
      throw error
    }
    logger.warn({ reason: reasonOf(error) }, 'the lake cannot be written yet: events wait in the topic')
  }
  return lake
}

export function createLakeQueries(config: Config): LakeQueries {
  const { databaseAddresses, roles, lakeBucket, objectStoreEnvironment } = config
  return new LakeQueries({
    place: lakePlace(config),
    mayBeMissing: databaseAddresses === null || roles.includes('lake'),
    environment: lakeBucket === null ? {} : objectStoreEnvironment,
  })
}

function lakePlace({ lakeBucket: bucket, dataDir }: Config): LakePlace {
  return { bucket, directory: dataFolder(dataDir).lake, dataDir }
}

/** Opens an existing lake. Throws OperatorError if nothing was written and no embedded store exists. */
export async function openExistingLake(config: Config): Promise<LakeStore> {
  const { lakeBucket, databaseAddresses, dataDir } = config
  const folder = dataFolder(dataDir)
  const lake = await openLake(config)
  if (lakeBucket === null && databaseAddresses === null && hasCluster(folder)) return lake
  if (lakeBucket === null ? existsSync(folder.lake) : (await lake.list('')).length > 0) return lake
  lake.close()
  throw new OperatorError(
    `there is no lake in ${lakeBucket === null ? folder.lake : lake.locate('')}; set DATA_DIR or LAKE_URL to the store's`,
  )
}

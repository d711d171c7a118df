import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { dataFolder } from '../db/data-folder.ts'
import type { Pool } from '../db/pool.ts'
import { type RecogniseOptions, recogniseRestore } from '../pipeline/incarnation/recognise-restore.ts'
import { createTopic } from './create-topic.ts'
import { openLake } from './open-lake.ts'

interface Options {
  pool: Pool
  /** Address of the same database. */
  url: string
  logger: Logger
  reason?: string
}

/** Compares the database with the topic and the lake of the settings. Throws when either cannot be read. */
export async function recogniseRestoreOf(config: Config, { pool, url, logger, reason }: Options): Promise<void> {
  // Of its own: in a new incarnation the topic may begin a new epoch, which one that is open would not know.
  const topic = createTopic(config, { pool, url, logger })
  const lake = hasLake(config) ? await openLake(config) : null
  const options: RecogniseOptions = { pool, topic, lake, logger }
  try {
    await recogniseRestore(reason === undefined ? options : { ...options, reason })
  } finally {
    lake?.close()
    await topic.stop()
  }
}

/** The same at the start of a process, which must not wait for a broker or a bucket that is away: the change stream looks again. */
export async function recogniseAtStart(config: Config, options: Options): Promise<void> {
  try {
    await recogniseRestoreOf(config, options)
  } catch (error) {
    options.logger.warn(
      { err: error },
      'the database could not be compared with topic and lake yet: the change stream does it before it publishes',
    )
  }
}

/** A process without the role may have neither bucket nor folder. */
function hasLake({ lakeBucket, dataDir }: Config): boolean {
  return lakeBucket !== null || existsSync(dataFolder(dataDir).lake)
}

import type { Logger } from 'pino'
import { AuditRunner, type RunCommand } from '../audit/audit-runner.ts'
import { Pipeline, type PipelineOptions } from '../audit/pipeline-status.ts'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import type { Topic } from '../topic/topic.ts'
import { DELIVERY_KINDS } from './create-subscribers.ts'
import { openLake } from './open-lake.ts'
import { orderSlotOf } from './prepare-database.ts'

export interface Audits {
  pipeline: Pipeline
  runner: AuditRunner
}

export interface AuditsOptions {
  pool: Pool
  url: string
  topic: Topic
  readStates: PipelineOptions['readStates']
  runCommand: RunCommand | undefined
  logger: Logger
}

/** The audits for operators: reading the state of the whole pipeline, and starting `verify` and `replay`. */
export function createAudits(config: Config, options: AuditsOptions): Audits {
  const { pool, url, topic, readStates, runCommand, logger } = options
  return {
    pipeline: new Pipeline({
      ...{ pool, topic, readStates },
      slotName: orderSlotOf(url),
      openLake: () => openLake(config),
      queues: DELIVERY_KINDS,
    }),
    runner: new AuditRunner({ pool, runCommand, logger }),
  }
}

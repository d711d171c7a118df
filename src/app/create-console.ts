import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { AuditRunner, type RunCommand } from '../console/audit-runner.ts'
import { Pipeline } from '../console/pipeline-status.ts'
import type { ConsoleParts } from '../console/routes.ts'
import type { Pool } from '../db/pool.ts'
import type { SubscriberName } from '../subscribers.ts'
import type { Subscription, Topic } from '../topic/topic.ts'
import { DELIVERY_KINDS } from './create-subscribers.ts'
import { openLake } from './open-lake.ts'
import { orderSlotOf } from './prepare-database.ts'

export interface ConsolePartsOptions {
  pool: Pool
  /** Address of the same database. */
  url: string
  topic: Topic
  subscriptions: ReadonlyMap<SubscriberName, Subscription>
  runCommand: RunCommand | undefined
  logger: Logger
}

/** The parts of the console that look at the whole store, and those that start commands. */
export function createConsoleParts(config: Config, options: ConsolePartsOptions): ConsoleParts {
  const { pool, url, topic, subscriptions, runCommand, logger } = options
  return {
    pipeline: new Pipeline({
      ...{ pool, topic, subscriptions },
      slotName: orderSlotOf(url),
      openLake: () => openLake(config),
      queues: DELIVERY_KINDS,
    }),
    audits: new AuditRunner({ pool, runCommand, logger }),
  }
}

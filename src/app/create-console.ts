import type { Logger } from 'pino'
import { PURGE_QUEUE } from '../catalogue/purge/purge-catalogue.ts'
import type { Config } from '../config.ts'
import { AuditRunner } from '../console/audit-runner.ts'
import { Pipeline } from '../console/pipeline-status.ts'
import type { ConsoleParts } from '../console/routes.ts'
import type { RunCommand } from '../console/run-command.ts'
import type { Pool } from '../db/pool.ts'
import { readJobQueue } from '../jobs/job-queue.ts'
import { ACCOUNT_MAIL_QUEUE } from '../mail/account-mail.ts'
import { EMAIL_QUEUE, readMailQueue } from '../mail/email-deliveries.ts'
import type { Subscription, Topic } from '../topic/topic.ts'
import { readWebhookQueue, WEBHOOK_QUEUE } from '../webhooks/webhook-deliveries.ts'
import { openLake } from './open-lake.ts'
import { orderSlotOf } from './prepare-database.ts'

export interface ConsolePartsOptions {
  pool: Pool
  /** Address of the same database. */
  url: string
  topic: Topic
  subscriptions: ReadonlyMap<string, Subscription>
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
      queues: {
        [EMAIL_QUEUE.name]: () => readMailQueue(pool),
        [WEBHOOK_QUEUE.name]: () => readWebhookQueue(pool),
        [ACCOUNT_MAIL_QUEUE.name]: () => readJobQueue(pool, ACCOUNT_MAIL_QUEUE.name),
        [PURGE_QUEUE.name]: () => readJobQueue(pool, PURGE_QUEUE.name),
      },
    }),
    audits: new AuditRunner({ pool, runCommand, logger }),
  }
}

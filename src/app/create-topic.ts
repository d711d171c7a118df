import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import type { PublishedEvent } from '../pipeline/delivery-log.ts'
import { createNatsTopic } from '../pipeline/nats/nats-topic.ts'
import { createPostgresTopic } from '../pipeline/postgres-topic.ts'
import type { Topic } from '../pipeline/topic.ts'

interface TopicOptions {
  pool: Pool
  /** Address of the same database. */
  url: string
  logger: Logger
  /** Hears of what a topic has that is not in the database, which tells of its own itself. */
  onStored?: (events: PublishedEvent[]) => void
}

/** The notification topic that the settings name. Not started: it works without, only later. */
export function createTopic({ nats }: Config, options: TopicOptions): Topic {
  return nats === null ? createPostgresTopic(options) : createNatsTopic({ ...options, nats, replicas: nats.replicas })
}

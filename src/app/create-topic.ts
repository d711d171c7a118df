import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import type { PublishedEvent } from '../topic/delivery-log.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import type { Topic } from '../topic/topic.ts'

interface TopicOptions {
  pool: Pool
  /** Address of the same database. */
  url: string
  logger: Logger
  /** For a process that only looks at the topic: it creates nothing at a broker. */
  isReadOnly?: boolean
  /** Called with the events that a broker has stored; the topic in the database records its own. */
  onStored?: (events: PublishedEvent[]) => void
}

/** The notification topic of the settings, not started. The client of NATS is loaded only where it is used. */
export async function createTopic({ nats }: Config, options: TopicOptions): Promise<Topic> {
  if (nats === null) return createPostgresTopic(options)
  const { NatsTopic } = await import('../topic/nats/nats-topic.ts')
  return new NatsTopic({ ...options, nats, replicas: nats.replicas })
}

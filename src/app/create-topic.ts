import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { PublishedEvent } from '../topic/delivery-log.ts'
import type { LockSessions } from '../topic/lock-session.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import type { Topic, TopicEvent, TopicPartition } from '../topic/topic.ts'

interface TopicOptions {
  pool: Pool
  url: string
  logger: Logger
  /** Lock sessions that all partitions' subscribers share. */
  sessions?: LockSessions
  /** Whether this process only reads the topic. It then creates nothing at a broker. */
  isReadOnly?: boolean
  /** Called with the events that a broker has stored. The topic in the database records its events itself. */
  onStored?: (events: PublishedEvent[]) => void
}

export function createTopic(config: Config, options: TopicOptions): Promise<Topic<OrderEvent>> {
  return createPartition(ORDERS, config, options)
}

/** Creates a partition's topic without starting it. Loads the NATS client only if NATS is used. */
export async function createPartition<E extends TopicEvent>(
  partition: TopicPartition<E>,
  { nats }: Config,
  options: TopicOptions,
): Promise<Topic<E>> {
  if (nats === null) return createPostgresTopic(partition, options)
  const { NatsTopic } = await import('../topic/nats/nats-topic.ts')
  return new NatsTopic(partition, { ...options, nats, replicas: nats.replicas })
}

import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import type { OrderEvent } from '../src/orders/events.ts'
import type { NatsSettings } from '../src/topic/nats/connection.ts'
import { NatsTopic, type NatsTopicOptions } from '../src/topic/nats/nats-topic.ts'
import { ORDERS } from '../src/topic/partitions.ts'
import type { Topic, TopicPartition } from '../src/topic/topic.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import type { TestDatabase } from './database.ts'
import { silent } from './stream-harness.ts'

/** Settings with these servers only. */
export const natsSettings = (servers: string, others: Partial<NatsSettings> = {}): NatsSettings => ({
  servers,
  credentialsFile: null,
  caFile: null,
  certFile: null,
  keyFile: null,
  ...others,
})

type NamedDatabase = Pick<TestDatabase, 'name' | 'pool' | 'url'>

/** A topic on a stream with the database's name, so no other test uses it. */
export function connectNatsTopic(
  t: Cleanup,
  db: NamedDatabase,
  servers: string,
  others: Partial<NatsTopicOptions> = {},
  partition: TopicPartition<OrderEvent> = ORDERS,
): Topic {
  const { name, pool, url } = db
  const topic = new NatsTopic(partition, { nats: natsSettings(servers), replicas: 1, name, pool, url, logger: silent, ...others })
  onCleanup(t, () => topic.stop())
  return topic
}

/** A manager as an operator would use it to inspect the broker. */
export async function connectManager(t: Cleanup, servers: string): Promise<JetStreamManager> {
  const connection = await connect({ servers: new URL(servers).host })
  onCleanup(t, () => connection.close())
  return jetstreamManager(connection, { timeout: 60_000 })
}

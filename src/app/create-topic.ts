import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Pool } from '../db/pool.ts'
import { createNatsTopic } from '../pipeline/nats-topic.ts'
import { createPostgresTopic } from '../pipeline/postgres-topic.ts'
import type { Topic } from '../pipeline/topic.ts'

/** The notification topic that the settings name. Not started: it works without, only later. */
export function createTopic({ nats }: Config, options: { pool: Pool; url: string; logger: Logger }): Topic {
  return nats === null ? createPostgresTopic(options) : createNatsTopic({ ...options, nats, replicas: nats.replicas })
}

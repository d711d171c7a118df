import { pino } from 'pino'
import type { Pool } from '../src/db/pool.ts'
import { ORDERS, CATALOGUE as PARTITION } from '../src/topic/partitions.ts'
import type { Topic, TopicEvent, TopicPartition } from '../src/topic/topic.ts'
import { failSyncs, hookLakeSteps } from './lake-hooks.ts'
import { makeRandom } from './random.ts'

// The real pipeline in a separate process, which may kill itself at a step. The hooks are here and not in the product.
// FAULT is a step (`after read`, `during publish`, `after publish`, `after confirm`, or one of lake-hooks.ts), a
// deliberate fault that a check must catch (see broken-topic.ts), or empty. FAULT_AFTER is the number of times that the
// step succeeds before. FAULT_SEED is the seed for random choices within a step.
const { FAULT = '', FAULT_AFTER = '0', FAULT_SEED = '0', ROLES = '', DATABASE_URL = '', CATALOGUE = 'off' } = process.env
let remaining = Number(FAULT_AFTER)
const random = makeRandom(Number(FAULT_SEED))

function dieAt(step: string): void {
  if (step === FAULT && remaining-- <= 0) process.kill(process.pid, 'SIGKILL')
}

if (FAULT === 'fsync EIO') failSyncs(Number(FAULT_AFTER))
hookLakeSteps(dieAt)

const { readConfig } = await import('../src/config.ts')
const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' }, pino.destination(2))

const rest = ROLES.split(',').filter((role) => role !== 'stream')
if (rest.length > 0) {
  const { createApp } = await import('../src/app.ts')
  const app = await createApp({ config: readConfig({ ...process.env, ROLES: rest.join(',') }), logger })
  await app.start()
}
if (ROLES.includes('stream')) await startStream()
process.stdout.write('ready\n')

// Starts the stream without app.ts, which takes a second to load, because most rounds wait for a handler that dies.
async function startStream(): Promise<void> {
  const { createPool } = await import('../src/db/pool.ts')
  const { createOrderStreamHandler } = await import('../src/change-stream/order-stream-handler.ts')
  const { slotNameFor } = await import('../src/change-stream/replication-slot.ts')
  const { breakTopic } = await import('./broken-topic.ts')
  const pool = createPool({ url: DATABASE_URL, size: 2, applicationName: 'faults', onError: () => {} })
  const database = new URL(DATABASE_URL).pathname.slice(1)
  const topic = breakTopic(await openTopic(ORDERS, pool), pool, FAULT)
  const { listIncarnations } = await import('../src/topic/incarnations.ts')
  const common = {
    ...{ url: DATABASE_URL, pool, logger },
    // Checks the incarnation each time like the program, whose module takes a while to load.
    async beforePublishing(signal: AbortSignal) {
      if ((await listIncarnations(pool)).at(-1)?.isCompared !== false) return
      const { ensureIncarnationOf } = await import('../src/app/ensure-incarnation.ts')
      await ensureIncarnationOf(readConfig(process.env), { pool, url: DATABASE_URL, logger, signal })
    },
  }
  await createOrderStreamHandler({ ...common, slotName: slotNameFor(database), topic: await dying(topic, pool, '_orders') }).start()
  if (CATALOGUE !== 'on') return
  const { createCatalogueStreamHandler } = await import('../src/change-stream/catalogue-stream-handler.ts')
  const catalogue = await dying(await openTopic(PARTITION, pool), pool, '_catalogue')
  await createCatalogueStreamHandler({ ...common, slotName: slotNameFor(database, 'catalogue'), topic: catalogue }).start()
}

/** A topic whose process dies at the step. For the catalogue, the step's name begins with `catalogue`. */
async function dying<E extends TopicEvent>(topic: Topic<E>, pool: Pool, slot: '_orders' | '_catalogue'): Promise<Topic<E>> {
  const { untilConfirmed } = await import('./until-confirmed.ts')
  const prefix = slot === '_orders' ? '' : 'catalogue '
  const publish = topic.publish.bind(topic)
  return Object.assign(topic, {
    async publish(messages: Parameters<typeof publish>[0]) {
      dieAt(`${prefix}after read`)
      const published = publish(messages)
      if (FAULT === `${prefix}during publish`) setTimeout(() => dieAt(FAULT), random() * 10)
      await published
      dieAt(`${prefix}after publish`)
      const position = messages.at(-1)?.position ?? ''
      // The handler confirms once this has returned. A refill's events have no position.
      if (FAULT === `${prefix}after confirm` && position !== '') void untilConfirmed(pool, position, slot).then(() => dieAt(FAULT))
    },
  })
}

async function openTopic<E extends TopicEvent>(partition: TopicPartition<E>, pool: Pool): Promise<Topic<E>> {
  const options = { pool, url: DATABASE_URL, logger }
  const { nats } = readConfig(process.env)
  if (nats === null) return (await import('../src/topic/postgres/postgres-topic.ts')).createPostgresTopic(partition, options)
  const { NatsTopic } = await import('../src/topic/nats/nats-topic.ts')
  return new NatsTopic(partition, { ...options, nats, replicas: nats.replicas })
}

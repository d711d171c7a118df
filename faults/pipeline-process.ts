import { pino } from 'pino'
import type { Pool } from '../src/db/pool.ts'
import type { Topic } from '../src/topic/topic.ts'
import { failSyncs, hookLakeSteps } from './lake-hooks.ts'
import { makeRandom } from './random.ts'

// The real pipeline in a separate process, which may kill itself at a step. The hooks are here and not in the product.
// FAULT: a step (`after read`, `during publish`, `after publish`, `after confirm`, or one of lake-hooks.ts), a deliberate fault that a
// check must catch (see broken-topic.ts), or nothing. FAULT_AFTER: how many times the step goes well before. FAULT_SEED: of
// what is left to chance within a step.
const { FAULT = '', FAULT_AFTER = '0', FAULT_SEED = '0', ROLES = '', DATABASE_URL = '' } = process.env
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

// Without app.ts, which takes a second to load: most rounds wait for a handler that dies.
async function startStream(): Promise<void> {
  const { createPool } = await import('../src/db/pool.ts')
  const { createOrderStreamHandler } = await import('../src/change-stream/order-stream-handler.ts')
  const { slotNameFor } = await import('../src/change-stream/replication-slot.ts')
  const { breakTopic } = await import('./broken-topic.ts')
  const { untilConfirmed } = await import('./until-confirmed.ts')
  const pool = createPool({ url: DATABASE_URL, size: 2, applicationName: 'faults', onError: () => {} })
  const topic = breakTopic(await openTopic(pool), pool, FAULT)
  const publish = topic.publish.bind(topic)
  const stream = createOrderStreamHandler({
    url: DATABASE_URL,
    pool,
    slotName: slotNameFor(new URL(DATABASE_URL).pathname.slice(1)),
    logger,
    topic: Object.assign(topic, {
      async publish(messages: Parameters<typeof publish>[0]) {
        dieAt('after read')
        const published = publish(messages)
        if (FAULT === 'during publish') setTimeout(() => dieAt('during publish'), random() * 10)
        await published
        dieAt('after publish')
        // The handler confirms when this has returned.
        if (FAULT === 'after confirm') void untilConfirmed(pool, messages.at(-1)?.position ?? '').then(() => dieAt('after confirm'))
      },
    }),
  })
  await stream.start()
}

async function openTopic(pool: Pool): Promise<Topic> {
  const options = { pool, url: DATABASE_URL, logger }
  const { nats } = readConfig(process.env)
  if (nats === null) return (await import('../src/topic/postgres/postgres-topic.ts')).createPostgresTopic(options)
  const { NatsTopic } = await import('../src/topic/nats/nats-topic.ts')
  return new NatsTopic({ ...options, nats, replicas: nats.replicas })
}

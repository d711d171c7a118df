// From an order's commit to the topic, and how fast a backlog is drained into topic and lake; with the topic in PostgreSQL and in NATS.
// Options: --seconds 10 --events 100000 --only latency|drain --topic postgres|nats
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { withCleanup } from '../test/cleanup.ts'
import { NO_NATS } from '../test/nats-server.ts'
import { measureDrain } from './pipeline/drain.ts'
import { measureLatency } from './pipeline/latency.ts'
import type { TopicKind } from './pipeline/rig.ts'

const KINDS: TopicKind[] = ['postgres', 'nats']

export async function run(args: string[]): Promise<void> {
  const { values: options } = parseArgs({
    args,
    options: {
      seconds: { type: 'string', default: '10' },
      events: { type: 'string', default: '100000' },
      only: { type: 'string', default: '' },
      topic: { type: 'string', default: '' },
    },
  })
  console.log(`${availableParallelism()} cores shared by PostgreSQL, broker, roles and load. PostgreSQL: fsync and synchronous_commit on.`)
  console.log('A process for each role, LOG_LEVEL=info. Draining is timed from when the role is at work, LAKE_FLUSH_SECONDS=1.')
  console.log('Goals: p99 of 50 ms or less at 500 orders/s, 10,000 events/s or more.')
  for (const kind of KINDS.filter((kind) => options.topic === '' || options.topic === kind)) {
    if (kind === 'nats' && NO_NATS) {
      console.log(`\nnats: skipped, ${NO_NATS}`)
      continue
    }
    if (options.only !== 'drain') await withCleanup((cleanup) => measureLatency(cleanup, kind, Number(options.seconds)))
    if (options.only !== 'latency') await withCleanup((cleanup) => measureDrain(cleanup, kind, Number(options.events)))
  }
}

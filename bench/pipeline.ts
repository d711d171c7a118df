// The time from an order's commit to the topic, and the rate at which a backlog is drained into topic and lake, with
// the topic in PostgreSQL and in NATS. Options: --seconds 10 --events 60000 --only latency|drain --topic postgres|nats
import { withCleanup } from '../test/cleanup.ts'
import { NO_NATS } from '../test/nats-server.ts'
import { measureDrain } from './pipeline/drain.ts'
import { measureLatency } from './pipeline/latency.ts'
import type { TopicKind } from './rig/store.ts'
import { type Row, readOptions } from './row.ts'

const KINDS: TopicKind[] = ['postgres', 'nats']

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick, more } = readOptions(args, { seconds: '', events: '', only: '', topic: '' })
  const seconds = Number(more.seconds || (isQuick ? 3 : 6))
  const events = Number(more.events || (isQuick ? 10_000 : 60_000))
  const rows: Row[] = []
  for (const kind of KINDS.filter((kind) => more.topic === '' || more.topic === kind)) {
    if (kind === 'nats' && NO_NATS) throw new Error(NO_NATS)
    if (more.only !== 'drain')
      await withCleanup(async (cleanup) => void rows.push(await measureLatency(cleanup, kind, { seconds, rounds })))
    if (more.only !== 'latency') await withCleanup(async (cleanup) => void rows.push(await measureDrain(cleanup, kind, { events, rounds })))
  }
  return rows
}

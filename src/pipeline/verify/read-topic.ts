import type { Topic } from '../topic.ts'
import { factsOf } from './facts.ts'
import type { Ledger } from './ledger.ts'

const BATCH_SIZE = 1_000

/** Puts the messages behind `after` into the ledger, up to the end of the topic. Returns the last sequence. */
export async function readTopic(topic: Topic, ledger: Ledger, after = 0): Promise<number> {
  let position = after
  for (;;) {
    const messages = await topic.read(position, BATCH_SIZE)
    const last = messages.at(-1)
    if (last === undefined) return position
    await ledger.add(
      'topic_events',
      messages.map(({ sequence, event }) => ({
        event_id: event.id,
        facts: factsOf(event),
        changed_at: Date.parse(event.time),
        sequence,
      })),
    )
    position = last.sequence
  }
}

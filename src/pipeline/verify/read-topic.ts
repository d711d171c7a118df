import { sortMessages } from '../sort-messages.ts'
import type { Topic } from '../topic.ts'
import { factsOf, moveDetailsOf } from './facts.ts'
import type { Ledger } from './ledger.ts'

const BATCH_SIZE = 1_000

/** Puts the messages behind `after` into the ledger, up to the end of the topic, those that are no order events apart. Returns the last sequence. */
export async function readTopic(topic: Topic, ledger: Ledger, after = 0): Promise<number> {
  let position = after
  for (;;) {
    const stored = await topic.read(position, BATCH_SIZE)
    const last = stored.at(-1)
    if (last === undefined) return position
    const { messages, corrupt } = sortMessages(stored)
    await ledger.add('corrupt_messages', corrupt)
    await ledger.add(
      'topic_events',
      messages.map(({ sequence, event }) => ({
        event_id: event.id,
        facts: factsOf(event),
        move_details: moveDetailsOf(event),
        changed_at: Date.parse(event.time),
        sequence,
      })),
    )
    position = last.sequence
  }
}

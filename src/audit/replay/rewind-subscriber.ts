import type { Pool } from '../../db/pool.ts'
import { OperatorError } from '../../errors.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import type { Topic, TopicEvent } from '../../topic/topic.ts'
import { withSubscriberLock } from './subscriber-lock.ts'

export class UnknownSubscriber extends OperatorError {
  override readonly name = 'UnknownSubscriber'
}

export interface RewindOptions<E extends TopicEvent> {
  pool: Pool
  url: string
  topic: Topic<E>
  name: string
  /** Rewinds to the first event at or after this time. The default is the beginning of the topic. */
  since?: Date | undefined
}

/** The subscriber dedupes by event id. The active process is interrupted for a moment. Throws UnknownSubscriber. */
export async function rewindSubscriber<E extends TopicEvent>({
  pool,
  url,
  topic,
  name,
  since,
}: RewindOptions<E>): Promise<{ from: number; to: number }> {
  const wanted = since === undefined ? 0 : await findSequenceBefore(topic, since)
  return withSubscriberLock(url, name, async (holder) => {
    const { rows } = await holder.query<{ from: number; to: number }>(
      `update topic_subscribers as subscriber
      set sequence = least(subscriber.sequence, $2)
      from topic_subscribers as before
      where subscriber.name = $1 and before.name = $1 and before.sequence is not null
      returning before.sequence as "from", subscriber.sequence as "to"`,
      [name, wanted],
    )
    if (rows[0] === undefined) throw new UnknownSubscriber(`there is no subscriber ${name}; known are: ${await listSubscribers(pool)}`)
    return rows[0]
  })
}

/** Includes the lake, which has a repair instead. */
async function listSubscribers(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ name: string }>('select name from topic_subscribers where sequence is not null order by name')
  return [...new Set([...rows.map((row) => row.name), 'lake'])].join(', ')
}

async function findSequenceBefore<E extends TopicEvent>(topic: Topic<E>, since: Date): Promise<number> {
  let position = 0
  for await (const { messages, last } of readBatches(topic, position)) {
    for (const { sequence, event } of messages) {
      if (Date.parse(event.time) >= since.getTime()) return position
      position = sequence
    }
    position = last
  }
  return position
}

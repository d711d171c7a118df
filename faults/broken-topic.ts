import type { Pool } from '../src/db/pool.ts'
import type { OutgoingMessage, Topic } from '../src/topic/topic.ts'
import { untilConfirmed } from './until-confirmed.ts'

/**
 * The topic with a deliberate fault, which the checks must detect. The name of any other fault leaves the topic
 * unchanged.
 */
export function breakTopic(topic: Topic, pool: Pool, fault: string): Topic {
  switch (fault) {
    case 'ack before publish':
      return { ...topic, publish: ackBeforePublish }
    case 'no dedupe':
      return {
        ...topic,
        async publish(messages) {
          await topic.publish(messages)
          // Stores messages without deduplication, so messages resent after a crash are kept.
          await pool.query(
            `insert into topic_messages (id, position, event)
            select id || ' again', position, event from topic_messages where id = any ($1)`,
            [messages.map(({ event }) => event.id)],
          )
        },
      }
    case 'dedupe by LSN': {
      const seen = new Set<string>()
      return {
        ...topic,
        publish: (messages) => topic.publish(messages.filter(({ position }) => !seen.has(position) && seen.add(position))),
      }
    }
    default:
      return topic
  }

  /**
   * Acknowledges messages before it stores them. The process dies in between, once PostgreSQL has the confirmed
   * position.
   */
  async function ackBeforePublish(messages: readonly OutgoingMessage[]): Promise<void> {
    void untilConfirmed(pool, messages.at(-1)?.position ?? '').then(() => process.kill(process.pid, 'SIGKILL'))
  }
}

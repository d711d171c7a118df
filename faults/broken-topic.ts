import type { Pool } from '../src/db/pool.ts'
import type { OutgoingMessage, Topic } from '../src/topic/topic.ts'
import { untilConfirmed } from './until-confirmed.ts'

/**
 * The topic with a deliberate fault, which the checks must detect. Any other name of a fault leaves the topic
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
          // A topic without dedupe keeps messages that are sent again after a crash.
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
   * Acknowledges messages before it stores them, and the process dies in between, after the position was confirmed to
   * PostgreSQL.
   */
  async function ackBeforePublish(messages: readonly OutgoingMessage[]): Promise<void> {
    void untilConfirmed(pool, messages.at(-1)?.position ?? '').then(() => process.kill(process.pid, 'SIGKILL'))
  }
}

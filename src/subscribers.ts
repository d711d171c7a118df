interface SubscriberDefinition {
  /** The name of the subscriber, its position, its lock and its metrics. */
  name: string
  role: string
  partition: 'orders' | 'catalogue'
  makes: string
  /** The topic stores the position, or the newest snapshot of the lake contains it. */
  position: 'topic' | 'lake'
  /** It delivers from a queue of its own name, and each attempt has a span. */
  hasQueue: boolean
}

/**
 * All subscribers, in the order in which they are shown. `app/create-subscribers.ts` creates the subscribers of each
 * role.
 */
export const SUBSCRIBERS = [
  { name: 'email', role: 'email', partition: 'orders', makes: 'mails', position: 'topic', hasQueue: true },
  { name: 'webhook', role: 'webhook', partition: 'orders', makes: 'webhooks', position: 'topic', hasQueue: true },
  { name: 'catalogue-webhook', role: 'webhook', partition: 'catalogue', makes: 'webhooks', position: 'topic', hasQueue: false },
  { name: 'lake', role: 'lake', partition: 'orders', makes: 'lake', position: 'lake', hasQueue: false },
  { name: 'catalogue-lake', role: 'lake', partition: 'catalogue', makes: 'lake', position: 'lake', hasQueue: false },
] as const satisfies readonly SubscriberDefinition[]

export type Subscriber = (typeof SUBSCRIBERS)[number]
export type SubscriberName = Subscriber['name']
export type SubscriberRole = Subscriber['role']
export type QueueSubscriber = Extract<Subscriber, { hasQueue: true }>['name']

export const SUBSCRIBER_ROLES: readonly SubscriberRole[] = [...new Set(SUBSCRIBERS.map(({ role }) => role))].sort()
export const QUEUE_SUBSCRIBERS = SUBSCRIBERS.filter(({ hasQueue }) => hasQueue)

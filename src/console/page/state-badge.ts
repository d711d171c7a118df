import { isStatus, type OrderStatus, ruleOf } from '#order-status'
import type { Schemas } from './api.ts'
import { badge } from './dom.ts'

type State =
  | Schemas['MailStatus']
  | Schemas['AuditRun']['status']
  | Schemas['Webhook']['state']
  | Schemas['WebhookDelivery']['status']
  | Schemas['ApiKeyState']

const KINDS = {
  queued: 'waiting',
  sent: 'good',
  failed: 'bad',
  running: 'waiting',
  passed: 'good',
  faults: 'bad',
  undecided: 'waiting',
  enabled: 'good',
  failing: 'waiting',
  disabled: 'bad',
  active: 'good',
  expired: 'bad',
  revoked: 'bad',
} as const satisfies Readonly<Record<Exclude<State, OrderStatus>, string>>

/** A badge for the state of an order, a mail, a run, a webhook or a key, in the same colour everywhere. */
export function stateBadge(state: State | OrderStatus): HTMLElement {
  return badge(state, isStatus(state) ? ruleOf(state).badge : KINDS[state])
}

/** The state of a mail, or what was reported about it since. */
export function mailBadge(mail: Pick<Schemas['Mail'], 'status' | 'bounced_at' | 'complained_at'>): HTMLElement {
  const { status, bounced_at, complained_at } = mail
  if (complained_at !== null) return badge('called spam', 'bad')
  return bounced_at === null ? stateBadge(status) : badge('came back', 'bad')
}

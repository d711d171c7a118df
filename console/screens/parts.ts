import { isStatus, type OrderStatus, ruleOf } from '../../src/orders/order-status.ts'
import { addressOf } from '../kit/address.ts'
import type { Schemas } from '../kit/api.ts'
import { type BadgeKind, badge, type Content, money } from '../kit/html.ts'
import { locale, numberText, t, word } from '../kit/language.ts'
import type { Filter } from '../kit/resource-list.ts'

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
} as const satisfies Readonly<Record<Exclude<State, OrderStatus>, BadgeKind>>

export function customerState({ blocked_at, role }: Pick<Schemas['Customer'], 'blocked_at' | 'role'>): Content {
  if (blocked_at !== null) return badge(t`blocked`, 'bad')
  return role === 'guest' ? badge(t`guest`) : badge(t`account`, 'good')
}

/** A badge for the state of an order, a mail, a run, a webhook or a key. A state has the same colour everywhere. */
export function stateBadge(state: State | OrderStatus): Content {
  return badge(word(state), isStatus(state) ? ruleOf(state).badge : KINDS[state])
}

/** The state of a mail, or a later report about it. */
export function mailBadge({
  status,
  bounced_at,
  complained_at,
}: Pick<Schemas['Mail'], 'status' | 'bounced_at' | 'complained_at'>): Content {
  if (complained_at !== null) return badge(t`called spam`, 'bad')
  return bounced_at === null ? stateBadge(status) : badge(t`came back`, 'bad')
}

export function orderAddress(orderId: string): string {
  return addressOf('orders', { order: orderId })
}

export function customerAddress(customerId: string): string {
  return addressOf('customers', { customer: customerId })
}

export function productAddress(productId: string): string {
  return addressOf('products', { product: productId })
}

/** A filter of a list by order number, in the spelling that people use. */
export function orderNumberFilter(label: string): Filter {
  const resolve = (number: string) => number.replace('#', '')
  return { name: 'number', label, title: t`Digits, with or without #`, pattern: '\\s*#?[0-9]{1,18}\\s*', resolve }
}

/** One sum per currency. */
export function sumsText(totals: readonly Schemas['Money'][]): string {
  return totals.length === 0 ? '–' : totals.map(money).join(', ')
}

/** The name of a language in the operator's language, such as "German" for `de`. */
export function languageName(tag: string): string {
  return new Intl.DisplayNames(locale, { type: 'language' }).of(tag) ?? tag
}

/** Whether customers currently see a product. */
export function saleState(
  product: Pick<Schemas['EditedProduct'], 'archived_at' | 'status' | 'published_at' | 'unpublished_at'>,
): [text: string, kind: BadgeKind] {
  const isPast = (time: string | null) => time !== null && Date.parse(time) <= Date.now()
  if (product.archived_at !== null) return ['archived', 'bad']
  if (product.status === 'draft') return ['draft', 'waiting']
  if (product.published_at !== null && !isPast(product.published_at)) return ['planned', 'waiting']
  return isPast(product.unpublished_at) ? ['ended', 'neutral'] : ['in_the_shop', 'good']
}

export function saleBadge(product: Parameters<typeof saleState>[0]): Content {
  const [state, kind] = saleState(product)
  return badge(word(state), kind)
}

export function ordersText({ count, is_complete }: Schemas['Customer']['orders']): string {
  return is_complete ? numberText(count) : t`${count} or more`
}

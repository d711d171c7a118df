import { readFileSync } from 'node:fs'
import { SCOPES } from '../src/http/scopes.ts'
import { ORDER_STATUSES, ruleOf } from '../src/orders/order-status.ts'
import { SUBSCRIBERS } from '../src/subscribers.ts'

interface Schema {
  enum?: string[]
  properties?: Record<string, Schema>
}

/** Properties of the API's answers whose values the console shows as words: `schema`, or `schema.member`. */
const SHOWN = [
  ...['Account.role', 'Adjustment.kind', 'ApiKeyState', 'AuditRun.status', 'MailStatus', 'NewWebhook.state', 'OrderStatus'],
  ...['Payment.state', 'PipelineGap.part', 'StockAdjustment.kind', 'WebhookStatus'],
]
/** The names that activities and edit conflicts use for parts of a product or an order. */
const NAMES = [
  ...[
    'archived',
    'draft',
    'planned',
    'ended',
    'in the shop',
    'product',
    'category',
    'order',
    'account',
    'mail',
    'webhook',
    'audit',
    'lake',
  ],
  ...['store', 'customers', 'orders', 'products', 'shipping address', 'billing address', 'vat number', 'email', 'tracking', 'lines'],
  ...[
    'SKU',
    'name',
    'price',
    'currency',
    'reduced from',
    'description',
    'brand',
    'availability',
    'slug',
    'SEO title',
    'SEO text',
    'status',
  ],
  ...['categories', 'images', 'attributes', 'other prices', 'sales', 'translations', 'in the shop from', 'in the shop until', 'group'],
  ...['options', 'stock', 'role', 'state'],
]

/** The store's words that the console's tables translate. */
export function wordsOfStore(root: URL): string[] {
  const { schemas } = JSON.parse(readFileSync(new URL('openapi.json', root), 'utf8')).components
  const values = SHOWN.flatMap((place) => {
    const [name = '', member = ''] = place.split('.')
    const schema: Schema = schemas[name]
    const found = member === '' ? schema.enum : schema.properties?.[member]?.enum
    if (found === undefined) throw new Error(`${place} of openapi.json lists no values.`)
    return found
  })
  const actions = ORDER_STATUSES.map((status) => ruleOf(status).action).filter((action) => action !== 'place')
  const all = [...values, ...actions, ...Object.values(SCOPES), ...SUBSCRIBERS.flatMap(({ name, makes }) => [name, makes]), ...NAMES]
  return [...new Set(all.map((name) => name.replaceAll('_', ' ')))]
}

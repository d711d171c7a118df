import { formatMoney } from '#currency'
import type { components } from '../../../client/src/schema.ts'

type Activity = components['schemas']['Activity']

/** What each call of the API that is recorded does, in words, by its `operationId`. */
export const ACTIONS: Readonly<Record<string, string>> = {
  createProduct: 'created the product',
  updateProduct: 'changed the product',
  archiveProduct: 'archived the product',
  createCategory: 'created the category',
  updateCategory: 'changed the category',
  deleteCategory: 'deleted the category',
  importProducts: 'imported products',
  setStock: 'counted the stock',
  adjustStock: 'adjusted the stock',
  moveOrder: 'moved the order',
  moveOrders: 'moved the order with others',
  shipLines: 'shipped a parcel',
  cancelLines: 'cancelled a part',
  returnLines: 'took a part back',
  amendOrder: 'amended the order',
  addAdjustment: 'added a charge',
  voidAdjustment: 'voided a charge',
  reportPayment: 'recorded a payment',
  refundOrder: 'recorded a refund',
  addOrderNote: 'wrote a note',
  blockCustomer: 'blocked the customer',
  unblockCustomer: 'unblocked the customer',
  eraseCustomer: 'erased the customer',
  createOperator: 'invited an operator',
  updateOperator: 'changed the role of an operator',
  removeOperator: 'removed an operator',
  resetOperatorFactors: 'reset the second factors of an operator',
  createApiKey: 'made an API key',
  rotateApiKey: 'rotated an API key',
  revokeApiKey: 'revoked an API key',
  requestEmailChange: 'asked for another e-mail address',
  confirmEmailChange: 'confirmed the e-mail address',
  revertEmailChange: 'reverted a change of the e-mail address',
  addPasskey: 'added a passkey',
  renamePasskey: 'renamed a passkey',
  removePasskey: 'removed a passkey',
  confirmTotp: 'set up an authenticator app',
  removeTotp: 'removed the authenticator app',
  renewRecoveryCodes: 'renewed the recovery codes',
  retryMail: 'retried a mail',
  sendMailAgain: 'sent a mail again',
  retryMails: 'retried all failed mails',
  createWebhook: 'added a webhook endpoint',
  updateWebhook: 'changed a webhook endpoint',
  deleteWebhook: 'removed a webhook endpoint',
  rotateWebhookSecret: 'gave a webhook endpoint another secret',
  enableWebhook: 'enabled a webhook endpoint',
  disableWebhook: 'disabled a webhook endpoint',
  testWebhook: 'sent a test webhook',
  redeliverWebhooks: 'delivered webhooks again',
  startAudit: 'started an audit',
  queryLake: 'queried the lake',
}

/** What was done: a command by its name, and a call of a later release by its `operationId`. */
export function actionText({ action, actor }: Pick<Activity, 'action' | 'actor'>): string {
  return ACTIONS[action] ?? (actor.type === 'system' ? `ran “${action}”` : action)
}

/** What differs, such as `stock: 7 → 25`; without a state before, `stock: 25`. */
export function differenceTexts({ before, after }: Pick<Activity, 'before' | 'after'>): string[] {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])]
  return names.map((name) => {
    const label = name.replace(/^is_/, '').replaceAll('_', ' ')
    const [old, now] = [before?.[name], after?.[name]].map(valueText)
    if (before === null) return `${label}: ${now}`
    if (after === null) return `${label}: ${old}`
    return `${label}: ${old} → ${now}`
  })
}

function valueText(value: unknown): string {
  if (value === null || value === undefined || value === '') return 'none'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.map(valueText).join(', ') || 'none'
  if (typeof value !== 'object') return String(value)
  if (isMoney(value)) return formatMoney(value, navigator.language)
  const entries = Object.entries(value).map(([name, one]) => `${name} ${valueText(one)}`)
  return entries.join(', ') || 'none'
}

function isMoney(value: object): value is components['schemas']['Money'] {
  return 'amount' in value && 'currency' in value && typeof value.amount === 'number' && typeof value.currency === 'string'
}

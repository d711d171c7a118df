import { formatMoney } from '../../client/src/currency.ts'
import type { components } from '../../client/src/schema.ts'
import { locale, t, word } from '../kit/language.ts'

type Activity = components['schemas']['Activity']

/** Texts for the recorded API calls by their `operationId`. */
export const ACTIONS: Readonly<Record<string, string>> = {
  createProduct: t`created the product`,
  updateProduct: t`changed the product`,
  archiveProduct: t`archived the product`,
  restoreProduct: t`restored the product`,
  updateProductGroup: t`changed what the variants of a group share`,
  createCategory: t`created the category`,
  updateCategory: t`changed the category`,
  deleteCategory: t`deleted the category`,
  placeProducts: t`ordered the products of the category`,
  importProducts: t`imported products`,
  setStock: t`counted the stock`,
  adjustStock: t`adjusted the stock`,
  moveOrder: t`moved the order`,
  moveOrders: t`moved the order with others`,
  shipLines: t`shipped a parcel`,
  cancelLines: t`cancelled a part`,
  returnLines: t`took a part back`,
  placeOrderForCustomer: t`placed the order`,
  amendOrder: t`amended the order`,
  addAdjustment: t`added a charge`,
  voidAdjustment: t`voided a charge`,
  reportPayment: t`recorded a payment`,
  refundOrder: t`recorded a refund`,
  addOrderNote: t`wrote a note`,
  blockCustomer: t`blocked the customer`,
  unblockCustomer: t`unblocked the customer`,
  eraseCustomer: t`erased the customer`,
  createOperator: t`invited an operator`,
  updateOperator: t`changed the role of an operator`,
  removeOperator: t`removed an operator`,
  resetOperatorFactors: t`reset the second factors of an operator`,
  createApiKey: t`made an API key`,
  rotateApiKey: t`rotated an API key`,
  revokeApiKey: t`revoked an API key`,
  requestEmailChange: t`asked for another e-mail address`,
  confirmEmailChange: t`confirmed the e-mail address`,
  revertEmailChange: t`reverted a change of the e-mail address`,
  addPasskey: t`added a passkey`,
  renamePasskey: t`renamed a passkey`,
  removePasskey: t`removed a passkey`,
  confirmTotp: t`set up an authenticator app`,
  removeTotp: t`removed the authenticator app`,
  renewRecoveryCodes: t`renewed the recovery codes`,
  retryMail: t`retried a mail`,
  sendMailAgain: t`sent a mail again`,
  retryMails: t`retried all failed mails`,
  createWebhook: t`added a webhook endpoint`,
  updateWebhook: t`changed a webhook endpoint`,
  deleteWebhook: t`removed a webhook endpoint`,
  rotateWebhookSecret: t`gave a webhook endpoint another secret`,
  enableWebhook: t`enabled a webhook endpoint`,
  disableWebhook: t`disabled a webhook endpoint`,
  testWebhook: t`sent a test webhook`,
  redeliverWebhooks: t`delivered webhooks again`,
  startAudit: t`started an audit`,
  queryLake: t`queried the lake`,
}

/** What was done. A command has its name, and a call of a later release its `operationId`. */
export function actionText({ action, actor }: Pick<Activity, 'action' | 'actor'>): string {
  return ACTIONS[action] ?? (actor.type === 'system' ? t`ran “${action}”` : action)
}

/** The differences, such as `stock: 7 → 25`, or `stock: 25` without an earlier state. */
export function differenceTexts({ before, after }: Pick<Activity, 'before' | 'after'>): string[] {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])]
  return names.map((name) => {
    const label = word(name.replace(/^is_/, ''))
    const [old, now] = [before?.[name], after?.[name]].map(valueText)
    if (before === null) return `${label}: ${now}`
    if (after === null) return `${label}: ${old}`
    return `${label}: ${old} → ${now}`
  })
}

function valueText(value: unknown): string {
  if (value === null || value === undefined || value === '') return t`none`
  if (typeof value === 'boolean') return value ? t`yes` : t`no`
  if (Array.isArray(value)) return value.map(valueText).join(', ') || t`none`
  if (typeof value !== 'object') return String(value)
  if (isMoney(value)) return formatMoney(value, locale)
  const entries = Object.entries(value).map(([name, one]) => `${name} ${valueText(one)}`)
  return entries.join(', ') || t`none`
}

function isMoney(value: object): value is components['schemas']['Money'] {
  return 'amount' in value && 'currency' in value && typeof value.amount === 'number' && typeof value.currency === 'string'
}

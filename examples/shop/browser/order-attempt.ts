import { isProblem, type NewOrder, ProblemError, type Schemas } from '../store.ts'
import { orderKey, readAttempt, saveAttempt } from './basket.ts'
import { ask, Refusal } from './dialog.ts'
import { shop, t } from './session.ts'

/** The store keeps the key of an order for a day. */
const KEY_KEPT_MS = 86_400_000

/**
 * Sends the order of this customer. While an earlier attempt has no answer, its order may have been placed: the same
 * order is sent again with its key, and the customer is asked before another one is.
 */
export async function sendOrder(order: NewOrder, email: string): Promise<Schemas['Order']> {
  const earlier = readAttempt()
  const present = { digest: await digestOf({ ...order, email }), at: Date.now() }
  const isSame = earlier !== null && earlier.digest === present.digest && present.at - earlier.at < KEY_KEPT_MS
  if (earlier !== null && !isSame && !(await mayPlaceAnother())) throw new Refusal(t('Nothing was ordered.'))
  saveAttempt(isSame ? earlier : present)
  try {
    return await shop.placeOrder(order, { idempotencyKey: orderKey() })
  } catch (error) {
    // A refusal says nothing about an earlier attempt.
    if (error instanceof ProblemError && error.status < 500 && !isProblem(error, 'request_in_progress')) saveAttempt(earlier)
    throw error
  }
}

function mayPlaceAnother(): Promise<boolean> {
  return ask(t('An order may have been placed'), {
    text: [t('The store did not answer your last order, which was another one or was sent more than a day ago. Check your mails first.')],
    others: { [t('Order nevertheless')]: async () => {} },
  })
}

/** A digest, because the order has an address, and the attempt is kept longer than the tab. */
async function digestOf(order: object): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(order)))
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

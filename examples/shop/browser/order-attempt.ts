import { isProblem, type NewOrder, ProblemError, type Schemas } from '../store.ts'
import { orderKey, readAttempt, saveAttempt } from './basket.ts'
import { ask, Refusal } from './dialog.ts'
import { shop, t } from './session.ts'

/** The store keeps an order's key for a day. */
const KEY_KEPT_MS = 86_400_000

/**
 * Sends the customer's order. An earlier attempt without an answer may have placed an order: the same order is sent
 * again with its key, and the customer is asked before another order is sent.
 */
export async function sendOrder(order: NewOrder): Promise<Schemas['Order']> {
  const { id, role, email } = await shop.account()
  // The store keeps a key for one account, or for all guests of one address.
  const customer = role === 'guest' ? email : id
  const earlier = readAttempt()
  const present = { digest: await digestOf({ ...order, again: undefined, customer }), at: Date.now() }
  const isSame = earlier !== null && earlier.digest === present.digest && present.at - earlier.at < KEY_KEPT_MS
  if (earlier !== null && !isSame && !(await mayPlaceAnother())) throw new Refusal(t('Nothing was ordered.'))
  saveAttempt(isSame ? earlier : present)
  try {
    return await shop.placeOrder(order, { idempotencyKey: orderKey() })
  } catch (error) {
    // A refusal does not tell whether an earlier attempt has placed an order. The client repeats a request without an
    // answer, and 401 and 429 come before the store looks for its key.
    const isRefused = error instanceof ProblemError && error.status < 500 && ![401, 429].includes(error.status)
    if (isRefused && !isProblem(error, 'request_in_progress')) saveAttempt(earlier)
    throw error
  }
}

function mayPlaceAnother(): Promise<boolean> {
  return ask(t('An order may have been placed'), {
    text: [
      t(
        'The store did not answer your last order. It was another one, of another account, or sent more than a day ago. Check your mails first.',
      ),
    ],
    others: { [t('Order nevertheless')]: async () => {} },
  })
}

/** Storage has only a digest, because the order has an address, and the attempt outlives the tab. */
async function digestOf(order: object): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(order)))
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

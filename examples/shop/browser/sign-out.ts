import { ORDER_LINK } from './order.ts'
import { BEGUN } from './providers.ts'
import { shop, showSession } from './session.ts'
import { forgetTyped } from './typed.ts'

/** Signs the customer out and removes their data from this tab. */
export async function signOut(): Promise<void> {
  await shop.logout().catch(() => {})
  for (const key of [ORDER_LINK, BEGUN]) sessionStorage.removeItem(key)
  forgetTyped()
  await showSession()
}

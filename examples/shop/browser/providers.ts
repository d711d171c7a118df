import type { Text } from '../view.ts'
import { explain } from './problems.ts'
import { withFreshProof, withSecondFactor } from './second-factor.ts'
import { shop, t } from './session.ts'

/** Key of the sign-in that the customer has begun at a provider. */
export const BEGUN = 'begun-at-provider'
const REASONS: Readonly<Record<string, Text>> = {
  denied: 'You are not signed in: it was declined there.',
  unavailable: 'This way to sign in does not work at the moment. Use another one, or try again later.',
  email_unproven: 'Confirm your e-mail address there first, and then sign in again.',
  account_unproven:
    'There is an account with your address, which it has not confirmed. Set a new password by mail (“Forgot password”), and then sign in again.',
}

/** Leaves the page for a provider, to sign in with it or, for the purpose `link`, to add it to the account. */
export async function beginAtProvider(id: string, purpose: 'sign_in' | 'link'): Promise<void> {
  const { url, codeVerifier } = await shop.startSignIn(id, location.origin + location.pathname + location.search, purpose)
  sessionStorage.setItem(BEGUN, JSON.stringify({ purpose, codeVerifier }))
  location.href = url
}

/**
 * Finishes a sign-in after the browser has come back from the provider. Returns a message for the customer, or null.
 */
export async function finishSignIn(): Promise<string | null> {
  const [, kind, value = ''] = /^#oidc-(code|link-code|error)=(.+)$/.exec(location.hash) ?? []
  if (kind === undefined) return null
  // Going back or reloading must not send the code again.
  history.replaceState(null, '', location.pathname + location.search)
  const { purpose, codeVerifier = '' } = JSON.parse(sessionStorage.getItem(BEGUN) ?? '{}') as { purpose?: string; codeVerifier?: string }
  sessionStorage.removeItem(BEGUN)
  if (kind === 'error' && purpose === 'link') return t('Nothing was added to your account. Try again.')
  if (kind === 'error') return t(REASONS[value] ?? 'You are not signed in. Try again.')
  try {
    if (kind === 'link-code') {
      await withFreshProof(() => shop.linkSignIn(value, codeVerifier))
      return t('It is added to your account: from now on you can sign in with it.')
    }
    const user = await withSecondFactor(() => shop.exchangeSignIn(value, codeVerifier))
    return user === undefined ? t('You are not signed in.') : null
  } catch (error) {
    return explain(error)
  }
}

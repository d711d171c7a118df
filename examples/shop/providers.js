import { byId, element } from './dom.js'
import { explain } from './problems.js'
import { withSecondFactor } from './second-factor.js'
import { withFreshProof } from './step-up.js'

/** What was begun at a provider: `purpose` and `codeVerifier`. */
const BEGUN = 'begun-at-provider'
const REASONS = {
  denied: 'You are not signed in: it was declined there.',
  unavailable: 'This way to sign in does not work at the moment. Use another one, or try again later.',
  email_unproven: 'Confirm your e-mail address there first, and then sign in again.',
  account_unproven:
    'There is an account with your address, which it has not confirmed. Set a new password by mail (“Forgot password”), and then sign in again.',
}

/** A button for each provider of the store, often none. The browser leaves the page and comes back with a code. */
export async function showProviders(shop) {
  const buttons = (await shop.signInProviders()).map(({ id, name }) => {
    const begin = () => beginAtProvider(shop, id, 'sign_in')
    return element('button', { type: 'button', onclick: begin }, `Sign in with ${name}`)
  })
  byId('sign-in-providers').replaceChildren(...buttons)
}

/** Leaves the page for a provider, to sign in with it, or to add it to the account with the purpose `link`. */
export async function beginAtProvider(shop, id, purpose) {
  const { url, codeVerifier } = await shop.startSignIn(id, location.origin + location.pathname, purpose)
  sessionStorage.setItem(BEGUN, JSON.stringify({ purpose, codeVerifier }))
  location.href = url
}

/** Finishes what was begun at the provider from which the browser has come back. Answers what to tell the customer, null for nothing. */
export async function finishSignIn(shop) {
  const [, kind, value] = /^#oidc-(code|link-code|error)=(.+)$/.exec(location.hash) ?? []
  if (kind === undefined) return null
  // Nobody who goes back or reloads sends it again.
  history.replaceState(null, '', location.pathname)
  const { purpose, codeVerifier = '' } = JSON.parse(sessionStorage.getItem(BEGUN)) ?? {}
  sessionStorage.removeItem(BEGUN)
  if (kind === 'error' && purpose === 'link') return 'Nothing was added to your account. Try again.'
  if (kind === 'error') return REASONS[value] ?? 'You are not signed in. Try again.'
  try {
    if (kind === 'link-code') {
      await withFreshProof(shop, () => shop.linkSignIn(value, codeVerifier))
      return 'It is added to your account: from now on you can sign in with it.'
    }
    const user = await withSecondFactor(shop, () => shop.exchangeSignIn(value, codeVerifier))
    return user === undefined ? 'You are not signed in.' : null
  } catch (problem) {
    return explain(problem)
  }
}

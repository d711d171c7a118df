import { byId, element } from './dom.js'
import { withSecondFactor } from './second-factor.js'

const SECRET = 'sign-in-secret'
const REASONS = {
  denied: 'You are not signed in: it was declined there.',
  unavailable: 'This way to sign in does not work at the moment. Use another one, or try again later.',
  email_unproven: 'Confirm your e-mail address there first, and then sign in again.',
  account_unproven:
    'There is an account with your address, which it has not confirmed. Set a new password by mail, and then sign in again.',
}

/** A button for each provider of the store, often none. The browser leaves the page and comes back with a code. */
export async function showProviders(shop) {
  const buttons = (await shop.signInProviders()).map(({ id, name }) => {
    const begin = async () => {
      const { url, codeVerifier } = await shop.startSignIn(id, location.origin + location.pathname)
      sessionStorage.setItem(SECRET, codeVerifier)
      location.href = url
    }
    return element('button', { type: 'button', onclick: begin }, `Sign in with ${name}`)
  })
  byId('sign-in-providers').replaceChildren(...buttons)
}

/** Finishes a sign-in with which the browser has come back. Answers what to tell the customer, null for nothing. */
export async function finishSignIn(shop) {
  const [, kind, value] = /^#oidc-(code|error)=(.+)$/.exec(location.hash) ?? []
  if (kind === undefined) return null
  // Nobody who goes back or reloads sends it again.
  history.replaceState(null, '', location.pathname)
  const secret = sessionStorage.getItem(SECRET) ?? ''
  sessionStorage.removeItem(SECRET)
  if (kind === 'error') return REASONS[value] ?? 'You are not signed in. Try again.'
  try {
    const user = await withSecondFactor(shop, () => shop.exchangeSignIn(value, secret))
    return user === undefined ? 'You are not signed in.' : null
  } catch (problem) {
    return problem.problem?.detail ?? 'The store cannot be reached. Try again.'
  }
}

import { isProblem } from '@storefront/client'
import { byId, whileDisabled } from './dom.js'

/** Browsers from 2025 on read and write WebAuthn's JSON themselves; without that the buttons stay away. */
export const hasPasskeys =
  globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON !== undefined && PublicKeyCredential.prototype.toJSON !== undefined

export const answerWithPasskey = async (options) => {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  return (await navigator.credentials.get({ publicKey })).toJSON()
}
const create = async (options) => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
  return (await navigator.credentials.create({ publicKey })).toJSON()
}

function explain(error) {
  // The customer has closed the browser's dialog, or there is no passkey of this shop.
  if (error instanceof DOMException) return 'No passkey was used.'
  if (isProblem(error, 'invalid_second_factor')) return 'This passkey is no longer one of your account.'
  if (isProblem(error, 'step_up_required')) return 'Sign out and in again, and then add the passkey.'
  return error.problem?.detail ?? 'The store cannot be reached. Try again.'
}

/** Connects the buttons; `onSignedIn` is called after a sign-in. */
export function connectPasskeys(shop, { report, onSignedIn }) {
  byId('use-passkey').hidden = !hasPasskeys
  byId('use-passkey').onclick = ({ target }) =>
    whileDisabled(target, async () => {
      const error = byId('account-form').querySelector('.error')
      error.textContent = ''
      try {
        await shop.loginWithPasskey(answerWithPasskey)
        byId('account').close()
      } catch (problem) {
        error.textContent = explain(problem)
      }
      await onSignedIn()
    })
  byId('add-passkey').onclick = ({ target }) =>
    whileDisabled(target, async () => {
      try {
        await shop.addPasskey(navigator.platform || 'This device', create)
        report('From now on you can sign in with a passkey.')
      } catch (problem) {
        report(explain(problem))
      }
    })
}

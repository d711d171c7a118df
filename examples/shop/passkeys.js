import { isProblem } from '@storefront/client'
import { byId, whileDisabled } from './dom.js'
import { answerWithPasskey, createPasskey, hasPasskeys } from './passkey-ceremony.js'
import { explain } from './problems.js'
import { withFreshProof } from './step-up.js'

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
        error.textContent = isProblem(problem, 'invalid_second_factor')
          ? 'This passkey is no longer one of your account.'
          : explain(problem)
      }
      await onSignedIn()
    })
  byId('add-passkey').onclick = ({ target }) =>
    whileDisabled(target, async () => {
      try {
        await withFreshProof(shop, () => shop.addPasskey(navigator.platform || 'This device', createPasskey))
        report('From now on you can sign in with a passkey.')
      } catch (problem) {
        report(explain(problem))
      }
    })
}

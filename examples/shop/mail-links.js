import { isProblem } from '@storefront/client'
import { ask } from './ask.js'
import { element } from './dom.js'
import { explain } from './problems.js'

const passwordInput = (autocomplete) => element('input', { type: 'password', required: true, minLength: 8, maxLength: 128, autocomplete })

/** What each link of the shop's mails does. Each answers what to tell the customer, or undefined for nothing. */
const ACTIONS = {
  async 'confirm-email'(shop, token, { signIn }) {
    if (!(await signIn('Sign in with the present e-mail address of your account. That confirms the address in the mail.')))
      return 'The address is not confirmed: open the link again, and sign in.'
    const { email } = await shop.confirmEmail(token)
    return `Your e-mail address is ${email}.`
  },

  /** A button confirms it: programs that check links open the page, too. */
  async 'revert-email'(shop, token) {
    const isReverted = await ask('Change of your e-mail address', {
      text: [
        'Somebody has changed the e-mail address of your account, or asked for it. If it was you, close this.',
        'If it was not you, take your account back. Everybody is signed out, and you set a new password.',
      ],
      action: 'It was not me',
      send: () => shop.revertEmailChange(token),
      explain,
    })
    if (!isReverted) return undefined
    // The session here may have been one of the account.
    await shop.account().catch(() => {})
    return 'Your account has its former address, and everybody is signed out. A mail with a link for a new password is on its way.'
  },

  async 'verify-email'(shop, token) {
    const isConfirmed = await ask('Confirm your e-mail address', {
      text: ['Enter the password that you have chosen for the account.'],
      label: 'Password',
      input: passwordInput('current-password'),
      action: 'Confirm',
      send: (password) => shop.verifyEmail({ token, password }),
      explain: (problem) => (isProblem(problem, 'invalid_credentials') ? 'The password is wrong.' : explain(problem)),
    })
    return isConfirmed ? 'Your account is ready, and you are signed in.' : undefined
  },

  async 'reset-password'(shop, token) {
    const isSet = await ask('Set a new password', {
      label: 'New password',
      input: passwordInput('new-password'),
      action: 'Set the password',
      send: (password) => shop.confirmPasswordReset({ token, password }),
      explain,
    })
    return isSet ? 'Your password is set. Sign in with it.' : undefined
  },
}

/** Follows the link of a mail with which the page was opened. Answers what to tell the customer, undefined for nothing. */
export async function followMailedLink(shop, { signIn }) {
  const [, name, token] = /^#([a-z-]+)=([\w-]+)$/.exec(location.hash) ?? []
  if (!Object.hasOwn(ACTIONS, name ?? '')) return undefined
  // The token stays out of history and bookmarks.
  history.replaceState(null, '', location.pathname)
  try {
    return await ACTIONS[name](shop, token, { signIn })
  } catch (problem) {
    return explain(problem)
  }
}

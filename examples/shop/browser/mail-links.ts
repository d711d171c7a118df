import { isProblem } from '../store.ts'
import { ask } from './dialog.ts'
import { explain } from './problems.ts'
import { shop, t } from './session.ts'
import { signIn } from './sign-in.ts'

const password = (autocomplete: string) => ({ type: 'password', minLength: 8, maxLength: 128, autocomplete })

/** The action of each link in the shop's mails. It returns a message for the customer, or undefined. */
const ACTIONS: Readonly<Record<string, (token: string) => Promise<string | undefined>>> = {
  async 'confirm-email'(token) {
    if (!(await signIn(t('Sign in with the present e-mail address of your account. That confirms the address in the mail.'))))
      return t('The address is not confirmed: open the link again, and sign in.')
    const { email } = await shop.confirmEmail(token)
    return t('Your e-mail address is {}.', email)
  },

  /** The customer confirms with a button, because programs that check links open the page, too. */
  async 'revert-email'(token) {
    const isReverted = await ask(t('Change of your e-mail address'), {
      text: [
        t('Somebody has changed the e-mail address of your account, or asked for it. If it was you, close this.'),
        t('If it was not you, take your account back. Everybody is signed out, and you set a new password.'),
      ],
      others: { [t('It was not me')]: () => shop.revertEmailChange(token) },
    })
    if (!isReverted) return undefined
    // The current session may have belonged to that account. This call notices the end of the session.
    await shop.account().catch(() => {})
    return t('Your account has its former address, and everybody is signed out. A mail with a link for a new password is on its way.')
  },

  async 'verify-email'(token) {
    const isConfirmed = await ask(t('Confirm your e-mail address'), {
      text: [t('Enter the password that you have chosen for the account.')],
      label: t('Password'),
      input: password('current-password'),
      action: t('Confirm'),
      send: (chosen) => shop.verifyEmail({ token, password: chosen }),
      explain: (error) => (isProblem(error, 'invalid_credentials') ? t('The password is wrong.') : explain(error)),
    })
    return isConfirmed ? t('Your account is ready, and you are signed in.') : undefined
  },

  async 'reset-password'(token) {
    const isSet = await ask(t('Set a new password'), {
      label: t('New password'),
      input: password('new-password'),
      action: t('Set the password'),
      send: (chosen) => shop.confirmPasswordReset({ token, password: chosen }),
    })
    return isSet ? t('Your password is set. Sign in with it.') : undefined
  },
}

/** Follows the mailed link that opened the page. Returns a message for the customer, or undefined. */
export async function followMailedLink(): Promise<string | undefined> {
  const [, name = '', token = ''] = /^#([a-z-]+)=([\w-]+)$/.exec(location.hash) ?? []
  if (!Object.hasOwn(ACTIONS, name)) return undefined
  // The token must not stay in the history or in bookmarks.
  history.replaceState(null, '', location.pathname + location.search)
  try {
    return await ACTIONS[name]?.(token)
  } catch (error) {
    return explain(error)
  }
}

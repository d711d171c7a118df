import { call, Refusal, type Schemas } from './api.ts'
import { NO_ANSWER, post } from './choose-password.ts'
import { openFormDialog } from './dialog.ts'
import { actions, badge, button, create, facts, note, replaceChildren } from './dom.ts'
import { field } from './form.ts'
import type { ScreenContext } from './screen.ts'

const OLD_LINK = 'The link was used already or is too old, a newer one replaces it, or it is of another account.'

/** The operator's own e-mail address, and how to prove or change it. */
export function showOwnEmail(content: HTMLElement, context: ScreenContext): void {
  const refresh = () => call<Schemas['Account']>('GET', '/me', { signal: context.signal }).then(show, context.report)
  const show = ({ email, is_email_verified, pending_email }: Schemas['Account']) =>
    replaceChildren(
      content,
      facts(
        ['E-mail', create('span', {}, `${email} `, is_email_verified ? badge('proven', 'good') : badge('not proven', 'waiting'))],
        ['Waits for its confirmation', pending_email],
      ),
      actions(
        button('Change the e-mail address', () => askForEmail(context, refresh)),
        is_email_verified ? null : button('Prove the address', () => requestProof(context), context.report),
      ),
    )
  void refresh()
}

async function requestProof({ signal, tell }: ScreenContext): Promise<void> {
  await call('POST', '/me/email/proof', { signal })
  tell('A mail with a link is on its way to your address.')
}

function askForEmail({ signal, tell }: ScreenContext, refresh: () => Promise<void>): void {
  const email = create('input', { type: 'email', name: 'email', required: true, autocomplete: 'email' })
  const onSubmit = async () => {
    await call('POST', '/me/email', { body: { email: email.value } })
    tell('A mail with a link is on its way to the new address. Your present one gets a notice.')
    await refresh()
  }
  openFormDialog(
    { title: 'Change the e-mail address', submit: 'Continue', signal, onSubmit },
    note('Nothing changes until you open the link that is mailed to the new address. Your other sessions end then.'),
    field('New e-mail address', email),
  )
}

/** Confirms the operator's address by a mailed token. Returns what to tell the operator. Throws SignedOut, or TypeError while the store does not answer. */
export async function confirmEmail(token: string): Promise<string> {
  try {
    const { email } = await call<Schemas['User']>('POST', '/me/email/confirm', { body: { token } })
    return `Your e-mail address is ${email}.`
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return error.problem.code === 'invalid_one_time_token' ? OLD_LINK : error.message
  }
}

/** Asks whether a change of the address shall be reverted; calls `onDone` with what to tell the operator at the sign-in. */
export function showRevertEmail(root: HTMLElement, token: string, onDone: (reason: string) => void): void {
  document.title = 'Change of your e-mail address – Storefront console'
  const fault = create('p', { class: 'error', attributes: { role: 'alert' } })
  const revert = button('It was not me', async () => {
    fault.textContent = ''
    revert.disabled = true
    try {
      const refusal = await post('auth/email/revert', { token })
      if (refusal === null)
        return onDone(
          'Your account has its former address, and everybody is signed out. A mail with a link for a new password is on its way.',
        )
      if (refusal.code === 'invalid_one_time_token') return onDone(OLD_LINK)
      fault.textContent = refusal.detail
    } catch {
      fault.textContent = NO_ANSWER
    } finally {
      revert.disabled = false
    }
  })
  const heading = create('h2', { tabIndex: -1 }, 'Change of your e-mail address')
  replaceChildren(
    root,
    create(
      'div',
      { class: 'sign-in' },
      heading,
      create('p', {}, 'Somebody has changed the address of your account, or asked for it. If it was you, do nothing and close this page.'),
      create(
        'p',
        {},
        'If it was not you, take your account back: it has its former address again, every session ends, and you choose a new password.',
      ),
      fault,
      actions(revert),
    ),
  )
  heading.focus()
}

import { actions, create, replaceChildren } from './dom.ts'
import { labelled } from './form.ts'
import { addressOf } from './session.ts'

export const NO_ANSWER = 'The store does not answer. Try again in a moment.'

/** Shows the form that sets a password by a mailed token; calls `onDone` with what to tell the operator at the sign-in. */
export function showChoosePassword(root: HTMLElement, token: string, onDone: (reason: string) => void): void {
  document.title = 'Choose a password – Storefront console'
  const properties = { type: 'password', required: true, autocomplete: 'new-password' } as const
  const password = create('input', { ...properties, name: 'new-password' })
  const repeated = create('input', { ...properties, name: 'repeated-password' })
  const fault = create('p', { class: 'error', attributes: { role: 'alert' } })
  const button = create('button', { type: 'submit', class: 'primary' }, 'Set the password')
  const form = create(
    'form',
    { class: 'sign-in' },
    create('h2', {}, 'Choose a password'),
    labelled('New password', password),
    labelled('The same again', repeated),
    fault,
    actions(button),
  )
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (button.disabled) return
    fault.textContent = ''
    if (password.value !== repeated.value) {
      fault.textContent = 'The two are not the same.'
      return repeated.select()
    }
    button.disabled = true
    try {
      const refusal = await post('auth/password-reset/confirm', { token, password: password.value })
      if (refusal === null) return onDone('Your password is set. Sign in with it.')
      if (refusal.code === 'invalid_one_time_token')
        return onDone('The link was used already or is too old. "Forgot password" mails another.')
      fault.textContent = (refusal.errors ?? [refusal]).map(({ detail }) => detail).join(' ')
      password.select()
    } catch {
      fault.textContent = NO_ANSWER
    } finally {
      button.disabled = false
    }
  })
  replaceChildren(root, form)
  password.focus()
}

/** Mails a link that leads to `showChoosePassword`. Returns what to tell the operator. */
export async function requestNewPassword(email: string): Promise<string> {
  const refusal = await post('auth/password-reset', { email })
  return refusal === null ? 'If there is an account with this address, a mail with a link is on its way.' : refusal.detail
}

interface Problem {
  code: string
  detail: string
  errors?: { detail: string }[]
}

/** Returns null when the store has done it. Throws TypeError while it does not answer. */
export async function post(path: string, body: object): Promise<Problem | null> {
  const answer = await fetch(addressOf(path), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return answer.ok ? null : await answer.json()
}

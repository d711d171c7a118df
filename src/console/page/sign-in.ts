import { call, type Schemas } from './api.ts'
import { NO_ANSWER, requestNewPassword } from './choose-password.ts'
import { openFormDialog } from './dialog.ts'
import { actions, create, replaceChildren } from './dom.ts'
import { field, labelled } from './form.ts'
import { answerWithPasskey, explainCeremony } from './passkey-ceremony.ts'
import { type SecondFactorQuestion, sendSecondFactor, signIn, signInWithPasskey, type Unfinished } from './session.ts'

/** Shows the form; calls `onSignedIn` after a sign-in. */
export function showSignIn(root: HTMLElement, reason: string, onSignedIn: () => void): void {
  document.title = 'Sign in – Storefront console'
  const email = create('input', { type: 'email', name: 'email', required: true, autocomplete: 'username' })
  const password = create('input', { type: 'password', name: 'password', required: true, autocomplete: 'current-password' })
  const fault = create('p', { class: 'error', attributes: { role: 'alert' } })
  const button = create('button', { type: 'submit', class: 'primary' }, 'Sign in')
  const passkey = create('button', { type: 'button' }, 'Use a passkey')
  const forgotten = create('button', { type: 'button' }, 'Forgot password')
  const status = create('p', { hidden: reason === '', attributes: { role: 'status' } }, reason)
  const form = create(
    'form',
    { class: 'sign-in' },
    create('h2', {}, 'Sign in'),
    status,
    labelled('E-mail', email),
    labelled('Password', password),
    fault,
    actions(button, passkey, forgotten),
  )
  const finish = (unfinished: Unfinished | null) => {
    if (unfinished === null) return onSignedIn()
    if (unfinished.question !== null) return showSecondFactor(root, unfinished.question, onSignedIn)
    fault.textContent = unfinished.detail
    password.select()
  }
  const attempt = attemptWith([button, passkey, forgotten], fault, finish)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void attempt(() => signIn(email.value, password.value))
  })
  passkey.addEventListener('click', () => void attempt(signInWithPasskey))
  forgotten.addEventListener('click', async () => {
    if (!email.reportValidity()) return
    forgotten.disabled = true
    const told = await requestNewPassword(email.value).catch(() => NO_ANSWER)
    forgotten.disabled = false
    status.hidden = false
    status.textContent = told
  })
  replaceChildren(root, form)
  email.focus()
}

/** The second step, with a code or a passkey. */
function showSecondFactor(root: HTMLElement, { challenge, methods, passkey_options }: SecondFactorQuestion, onSignedIn: () => void): void {
  const code = create('input', { name: 'code', required: true, autocomplete: 'one-time-code' })
  const fault = create('p', { class: 'error', attributes: { role: 'alert' } })
  const button = create('button', { type: 'submit', class: 'primary' }, 'Continue')
  const passkey = create('button', { type: 'button' }, 'Use a passkey')
  const label = methods.includes('totp') ? 'Code of your app, or a recovery code ' : 'Recovery code '
  const form = create(
    'form',
    { class: 'sign-in' },
    create('h2', {}, 'Second step'),
    create('label', {}, label, code),
    fault,
    actions(button, passkey_options === null ? null : passkey),
  )
  const finish = (unfinished: Unfinished | null) => {
    if (unfinished === null) return onSignedIn()
    // A passkey answers a challenge once, and five codes use it up.
    if (unfinished.code === 'invalid_challenge') return showSignIn(root, unfinished.detail, onSignedIn)
    fault.textContent = unfinished.detail
    code.select()
  }
  const attempt = attemptWith([button, passkey], fault, finish)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void attempt(() => sendSecondFactor(challenge, proofOf(code.value)))
  })
  passkey.addEventListener(
    'click',
    () => void attempt(async () => sendSecondFactor(challenge, { passkey: await answerWithPasskey(passkey_options ?? {}) })),
  )
  replaceChildren(root, form)
  code.focus()
}

/** Six digits are a code of the app, anything else a recovery code. */
function proofOf(text: string): { totp_code: string } | { recovery_code: string } {
  const digits = text.replaceAll(/\s/g, '')
  return /^\d{6}$/.test(digits) ? { totp_code: digits } : { recovery_code: text.trim() }
}

function attemptWith(buttons: readonly HTMLButtonElement[], fault: HTMLElement, finish: (unfinished: Unfinished | null) => void) {
  return async (work: () => Promise<Unfinished | null>) => {
    for (const button of buttons) button.disabled = true
    fault.textContent = ''
    try {
      finish(await work())
    } catch (error) {
      fault.textContent = explainCeremony(error) ?? NO_ANSWER
    } finally {
      for (const button of buttons) button.disabled = false
    }
  }
}

/** Asks the operator to prove again who they are. Resolves to whether they did. */
export async function askForProof(): Promise<boolean> {
  const { methods, passkey_options } = await call<Schemas['StepUpRequest']>('POST', '/auth/step-up/options')
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const closed = new AbortController()
  const send = async (proof: object) => {
    await call('POST', '/auth/step-up', { body: proof })
    resolve(true)
  }
  const isPassword = methods.includes('password')
  const label = isPassword ? 'Password' : methods.includes('totp') ? 'Code of your app, or a recovery code' : 'Recovery code'
  const input = create('input', {
    type: isPassword ? 'password' : 'text',
    name: 'proof',
    required: true,
    autocomplete: isPassword ? 'current-password' : 'one-time-code',
  })
  const passkey = create('button', { type: 'button' }, 'Use a passkey')
  const fault = create('p', { class: 'error', attributes: { role: 'alert' } })
  passkey.addEventListener('click', async () => {
    try {
      await send({ passkey: await answerWithPasskey(passkey_options ?? {}) })
      closed.abort()
    } catch (error) {
      fault.textContent = explainCeremony(error) ?? (error as Error).message
    }
  })
  openFormDialog(
    {
      title: 'Confirm that it is you',
      submit: 'Confirm',
      signal: closed.signal,
      onSubmit: () => send(isPassword ? { password: input.value } : proofOf(input.value)),
    },
    field(label, input),
    passkey_options === null ? null : passkey,
    fault,
  )
  // The dialog leaves the page when it is closed, however that happens.
  input.closest('dialog')?.addEventListener('close', () => resolve(false))
  return promise
}

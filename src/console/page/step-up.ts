import { call, type Schemas } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { create } from './dom.ts'
import { field } from './form.ts'
import { answerWithPasskey, explainCeremony } from './passkey-ceremony.ts'
import { proofOf } from './sign-in.ts'

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

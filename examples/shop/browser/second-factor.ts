import { html } from 'lit-html'
import { isProblem, type ProblemOf, type User } from '../store.ts'
import { alerts, ask, attempt, openDialog } from './dialog.ts'
import { answerWithPasskey, hasPasskeys } from './passkey-ceremony.ts'
import { explain } from './problems.ts'
import { shop, t } from './session.ts'

/** Signs in, and asks for the second factor if the account has one. Returns undefined when the customer gives up. */
export async function withSecondFactor<Result>(signIn: () => Promise<Result>): Promise<Result | User | undefined> {
  try {
    return await signIn()
  } catch (error) {
    if (!isProblem(error, 'second_factor_required')) throw error
    return askForSecondFactor(error.problem)
  }
}

async function askForSecondFactor({ challenge, passkey_options }: ProblemOf<'second_factor_required'>): Promise<User | undefined> {
  let user: User | undefined
  await openDialog(t('Second factor'), ({ close }) => {
    const complete = async (event: Event, prove: () => Promise<object>) => {
      const prove_ = async () => {
        user = await shop.completeLogin({ challenge, ...(await prove()) } as Parameters<typeof shop.completeLogin>[0])
      }
      if (await attempt(event, prove_, explainProof)) close()
    }
    const submit = (event: SubmitEvent) => {
      const code = String(new FormData(event.currentTarget as HTMLFormElement).get('code'))
      return complete(event, async () => proofOf(code))
    }
    const byPasskey = (event: Event) => complete(event, async () => ({ passkey: await answerWithPasskey(passkey_options as never) }))
    return html`<form @submit=${submit}>
<label>${t('Code of your authenticator app, or a recovery code')}
<input name="code" required maxlength="40" autocomplete="one-time-code" autocapitalize="characters" spellcheck="false"></label>
${alerts}
<p class="actions"><button class="primary">${t('Continue')}</button>
<button type="button" ?hidden=${!passkey_options || !hasPasskeys} @click=${byPasskey}>${t('Use a passkey instead')}</button></p>
</form>`
  })
  return user
}

/** Six digits are a code of the app. Other text is a recovery code. */
function proofOf(text: string): { totp_code: string } | { recovery_code: string } {
  const code = text.replace(/\s/g, '')
  return /^\d{6}$/.test(code) ? { totp_code: code } : { recovery_code: code }
}

function explainProof(error: unknown): string {
  if (isProblem(error, 'invalid_second_factor')) return t('That is wrong, or was used already.')
  if (isProblem(error, 'invalid_challenge')) return t('This sign-in is over. Close this, and sign in again.')
  if (isProblem(error, 'rate_limited')) return t('Too many wrong codes. Wait a while, or use a recovery code or a passkey.')
  return explain(error)
}

/**
 * Makes a call that needs recent authentication. If the last authentication is too old, asks for it and repeats the
 * call.
 */
export async function withFreshProof<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return await call()
  } catch (error) {
    if (!isProblem(error, 'step_up_required') || !(await askForProof())) throw error
    return call()
  }
}

/** An account that only a provider opens has no other method, so its customer signs in again. */
async function askForProof(): Promise<boolean> {
  const { methods, passkey_options } = await shop.stepUpOptions()
  const usePasskey = async () => shop.stepUp({ passkey: await answerWithPasskey(passkey_options as never) })
  const others = passkey_options !== null && hasPasskeys ? { [t('Use a passkey')]: usePasskey } : {}
  const question = { text: [t('This change needs a proof of the last ten minutes.')], others, explain: explainProof }
  const title = t('Confirm that it is you')
  if (methods.includes('password')) {
    const input = { type: 'password', autocomplete: 'current-password', maxLength: 128 }
    return ask(title, { ...question, label: t('Password'), input, action: t('Continue'), send: (password) => shop.stepUp({ password }) })
  }
  if (methods.includes('totp') || methods.includes('recovery_code')) {
    const label = t('Code of your authenticator app, or a recovery code')
    const input = { type: 'text', autocomplete: 'one-time-code', maxLength: 40 }
    return ask(title, { ...question, label, input, action: t('Continue'), send: (code) => shop.stepUp(proofOf(code)) })
  }
  return Object.keys(others).length > 0 && ask(title, question)
}

import { html } from 'lit-html'
import { isProblem, type User } from '../store.ts'
import { alerts, attempt, openDialog } from './dialog.ts'
import { answerWithPasskey, hasPasskeys } from './passkey-ceremony.ts'
import { explain, explainSignIn } from './problems.ts'
import { beginAtProvider } from './providers.ts'
import { withSecondFactor } from './second-factor.ts'
import { report, shop, showSession, t, view } from './session.ts'

export interface Credentials {
  email: string
  password: string
}

/** The ways to order and to sign in that a form can offer. They return undefined when the customer gives up. */
export const SIGN_INS: Readonly<Record<string, (credentials: Credentials) => Promise<User | null | undefined>>> = {
  guest: ({ email }) => shop.loginAsGuest({ email, language: view.lang }),
  login: (credentials) => withSecondFactor(() => shop.login(credentials)),
  register: (credentials) => withSecondFactor(() => shop.register({ ...credentials, language: view.lang })),
}

/** Asks the customer to sign in unless they already have. Returns whether they are signed in. */
export async function signIn(reason = ''): Promise<boolean> {
  if (await shop.isLoggedIn()) return true
  const providers = await shop.signInProviders().catch(() => [])
  await openDialog(t('Sign in'), ({ close }) => {
    const done = async (event: Event, work: () => Promise<boolean>, explainIt = explainSignIn) => {
      let isOver = false
      const sign = async () => {
        isOver = await work()
      }
      if ((await attempt(event, sign, explainIt)) && isOver) close()
      await showSession()
    }
    const submit = (event: SubmitEvent) => {
      const credentials = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement)) as unknown as Credentials
      const way = (event.submitter as HTMLButtonElement | null)?.value ?? 'login'
      return done(event, async () => {
        const user = await SIGN_INS[way]?.(credentials)
        if (user === null) report(t('A mail with a link to confirm the address is on its way.'))
        return user !== undefined
      })
    }
    const byPasskey = (event: Event) =>
      done(
        event,
        async () => (await shop.loginWithPasskey(answerWithPasskey)) !== null,
        (error) => (isProblem(error, 'invalid_second_factor') ? t('This passkey is no longer one of your account.') : explain(error)),
      )
    const forgot = (event: Event) => {
      const form = (event.currentTarget as HTMLButtonElement).form as HTMLFormElement
      const email = form.elements.namedItem('email') as HTMLInputElement
      if (!email.reportValidity()) return
      return attempt(event, async () => {
        await shop.requestPasswordReset(email.value)
        return t('If there is an account with this address, a mail with a link is on its way.')
      })
    }
    return html`<form @submit=${submit}>
<p>${reason}</p>
<label>${t('E-mail')} <input type="email" name="email" required maxlength="254" autocomplete="username"></label>
<label>${t('Password')} <input type="password" name="password" required minlength="8" maxlength="128" autocomplete="current-password"></label>
${alerts}
<p class="actions"><button class="primary" value="login">${t('Sign in')}</button>
<button value="register">${t('Create an account')}</button>
<button type="button" ?hidden=${!hasPasskeys} @click=${byPasskey}>${t('Use a passkey')}</button>
<button type="button" @click=${forgot}>${t('Forgot password')}</button></p>
<p class="actions">${providers.map(
      ({ id, name }) =>
        html`<button type="button" @click=${(event: Event) => attempt(event, () => beginAtProvider(id, 'sign_in'))}>${t('Sign in with {}', name)}</button>`,
    )}</p>
</form>`
  })
  return shop.isLoggedIn()
}

import { anonymousApi, api, ProblemError, read, type Schemas } from '../kit/api.ts'
import { openFormDialog } from '../kit/dialog.ts'
import { createForm, entered, field } from '../kit/form.ts'
import { type Content, html, nothing, ref } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { answerWithPasskey } from '../kit/passkey-ceremony.ts'
import { type SecondFactorQuestion, sendSecondFactor, signIn, signInWithPasskey, type Unfinished } from '../kit/session.ts'

/** A view for a person who is not signed in. `update` renders it again. */
export type Alone = (update: () => void) => () => Content

const OLD_LINK = t`The link was used already or is too old, a newer one replaces it, or it is of another account.`
const OLD_PASSWORD_LINK = t`The link was used already or is too old. "Forgot password" mails another.`
const PASSKEY = html`<button type="submit" name="with" value="passkey" formnovalidate>Use a passkey</button>`
const CODES = t`Code of your app, or a recovery code`

/** Focuses the first field, when the rendering has ended and the page contains the field. */
const typedFirst = ref((element) => queueMicrotask(() => (element as HTMLElement | undefined)?.focus()))

function view(title: string, content: () => Content): () => Content {
  document.title = t`${title} – Storefront console`
  return () => html`<section class="sign-in"><h2>${title}</h2>${content()}</section>`
}

function password(name: string, autocomplete: string, focus: Content | ReturnType<typeof ref> = nothing): Content {
  return html`<input type="password" name=${name} required autocomplete=${autocomplete} ${focus}>`
}

/** Asks for the password or a passkey, and for a second factor if the account has one. */
export function signInView(reason: string, onSignedIn: () => void): Alone {
  return (update) => {
    let told = reason
    let question: SecondFactorQuestion | null = null
    const finish = (unfinished: Unfinished | null, form: HTMLFormElement) => {
      if (unfinished === null) return onSignedIn()
      // A passkey answers a challenge only once, and five wrong codes use it up.
      const isUsedUp = unfinished.code === 'invalid_challenge'
      if (unfinished.question === null && !isUsedUp) {
        form.querySelector<HTMLInputElement>('input:last-of-type:not([type=email])')?.select()
        throw new Error(unfinished.detail)
      }
      question = unfinished.question
      told = isUsedUp ? unfinished.detail : ''
    }
    const first = createForm(
      { update },
      {
        submit: t`Sign in`,
        actions: (isSending) => html`${PASSKEY}
          <button type="submit" name="with" value="mail" formnovalidate ?disabled=${isSending}>Forgot password</button>`,
        async onSubmit(data, form) {
          const { with: way, email = '', password = '' } = entered(data)
          if (way === 'passkey') return finish(await signInWithPasskey(), form)
          if (way !== 'mail') return finish(await signIn(email, password), form)
          if (form.querySelector<HTMLInputElement>('[name=email]')?.reportValidity()) told = await requestNewPassword(email)
        },
      },
    )
    const second = createForm(
      { update },
      {
        submit: t`Continue`,
        actions: () => (question?.passkey_options ? PASSKEY : nothing),
        async onSubmit(data, form) {
          const { challenge = '', passkey_options } = question ?? {}
          const proof =
            data.get('with') === 'passkey' ? { passkey: await answerWithPasskey(passkey_options ?? {}) } : proofOf(String(data.get('code')))
          finish(await sendSecondFactor(challenge, proof), form)
        },
      },
    )
    const askFirst = view(
      t`Sign in`,
      () => html`<p role="status" ?hidden=${told === ''}>${told}</p>
      ${first(html`
        ${field(t`E-mail`, html`<input type="email" name="email" required autocomplete="username" ${typedFirst}>`)}
        ${field(t`Password`, password('password', 'current-password'))}`)}`,
    )
    return () =>
      question === null
        ? askFirst()
        : html`<section class="sign-in"><h2>Second step</h2>${second(
            field(
              question.methods.includes('totp') ? CODES : t`Recovery code`,
              html`<input name="code" required autocomplete="one-time-code" ${typedFirst}>`,
            ),
          )}</section>`
  }
}

/** Six digits are a code of the app. Other text is a recovery code. */
function proofOf(text: string): { totp_code: string } | { recovery_code: string } {
  const digits = text.replaceAll(/\s/g, '')
  return /^\d{6}$/.test(digits) ? { totp_code: digits } : { recovery_code: text.trim() }
}

/** Asks for recent authentication. Resolves to whether the operator has proven their identity. */
export async function askForProof(): Promise<boolean> {
  const { methods, passkey_options } = await read(api.POST('/auth/step-up/options'))
  const isPassword = methods.includes('password')
  const label = isPassword ? t`Password` : methods.includes('totp') ? CODES : t`Recovery code`
  const input = isPassword ? password('proof', 'current-password') : html`<input name="proof" required autocomplete="one-time-code">`
  return new Promise((resolve) => {
    openFormDialog(
      {
        title: t`Confirm that it is you`,
        submit: t`Confirm`,
        signal: new AbortController().signal,
        actions: () => (passkey_options === null ? nothing : PASSKEY),
        async onSubmit(data) {
          const typed = String(data.get('proof'))
          const passkey = data.get('with') === 'passkey'
          const body = passkey
            ? { passkey: await answerWithPasskey(passkey_options ?? {}) }
            : isPassword
              ? { password: typed }
              : proofOf(typed)
          await api.POST('/auth/step-up', { body: body as Schemas['StepUp'] })
          resolve(true)
        },
        onClose: () => resolve(false),
      },
      () => () => field(label, input),
    )
  })
}

/** Sets a password with a mailed token. Calls `onDone` with a message for the sign-in. */
export function choosePasswordView(token: string, onDone: (reason: string) => void): Alone {
  return (update) => {
    const form = createForm(
      { update },
      {
        submit: t`Set the password`,
        async onSubmit(data, element) {
          const chosen = String(data.get('new-password'))
          if (chosen !== data.get('repeated-password')) {
            element.querySelector<HTMLInputElement>('[name=repeated-password]')?.select()
            throw new Error(t`The two are not the same.`)
          }
          const set = () => anonymousApi.POST('/auth/password-reset/confirm', { body: { token, password: chosen } })
          onDone((await withLink(set, OLD_PASSWORD_LINK)) ?? t`Your password is set. Sign in with it.`)
        },
      },
    )
    return view(t`Choose a password`, () =>
      form(html`
        ${field(t`New password`, password('new-password', 'new-password', typedFirst))}
        ${field(t`The same again`, password('repeated-password', 'new-password'))}`),
    )
  }
}

/** Mails a link to `choosePasswordView`. Returns a message for the operator. */
export async function requestNewPassword(email: string): Promise<string> {
  await anonymousApi.POST('/auth/password-reset', { body: { email } })
  return t`If there is an account with this address, a mail with a link is on its way.`
}

/** Asks whether to revert a change of the address. Calls `onDone` with a message for the sign-in. */
export function revertEmailView(token: string, onDone: (reason: string) => void): Alone {
  return (update) => {
    const form = createForm(
      { update },
      {
        submit: t`It was not me`,
        async onSubmit() {
          const fault = await withLink(() => anonymousApi.POST('/auth/email/revert', { body: { token } }), OLD_LINK)
          const done = t`Your account has its former address, and everybody is signed out. A mail with a link for a new password is on its way.`
          onDone(fault ?? done)
        },
      },
    )
    return view(t`Change of your e-mail address`, () =>
      form(html`
        <p tabindex="-1" ${typedFirst}>Somebody has changed the address of your account, or asked for it. If it was you, do nothing and close this page.</p>
        <p>If it was not you, take your account back: it has its former address again, every session ends, and you choose a new password.</p>`),
    )
  }
}

/**
 * Confirms the operator's address with a mailed token. Returns a message for the operator. Throws SignedOut or
 * NoAnswer.
 */
export async function confirmEmail(token: string): Promise<string> {
  let email = ''
  const confirm = async () => {
    email = (await read(api.POST('/me/email/confirm', { body: { token } }))).email
  }
  try {
    return (await withLink(confirm, OLD_LINK)) ?? t`Your e-mail address is ${email}.`
  } catch (error) {
    if (error instanceof ProblemError) return error.problem.detail
    throw error
  }
}

/** Returns null when the call succeeds, and `old` when the link's token is no longer valid. */
async function withLink(call: () => Promise<unknown>, old: string): Promise<string | null> {
  try {
    await call()
    return null
  } catch (error) {
    if (error instanceof ProblemError && error.problem.code === 'invalid_one_time_token') return old
    throw error
  }
}

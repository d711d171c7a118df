import { encode } from 'uqr'
import { api, read, type Schemas } from '../kit/api.ts'
import { confirmAction, openFormDialog } from '../kit/dialog.ts'
import { choice, field } from '../kit/form.ts'
import { badge, type Content, card, facts, html, loading, note, nothing, svg, table, time } from '../kit/html.ts'
import { chooseLanguage, LANGUAGES, type Language, language, t } from '../kit/language.ts'
import { createPasskey } from '../kit/passkey-ceremony.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'

type Passkey = Schemas['AuthenticationFactors']['passkeys'][number]

/** The operator's own e-mail address, passkeys, authenticator app and recovery codes. */
export const account: Screen = {
  title: t`Account`,
  scopes: null,
  open(context) {
    const email = ownEmail(context)
    const factors = ownFactors(context)
    return () => html`<div class="title"><h2>Account</h2></div><div class="cards">${email()}${languageCard(context)}${factors()}</div>`
  },
}

function languageCard({ tell }: ScreenContext): Content {
  const names = LANGUAGES.map((tag) => [tag, new Intl.DisplayNames(tag, { type: 'language' }).of(tag) ?? tag] as const)
  const onChange = (tag: string) => {
    if (chooseLanguage(tag as Language)) location.reload()
    else tell(t`This browser stores nothing for pages, so it cannot keep the language.`)
  }
  return card(t`Language`, field(t`Language`, choice({ name: 'language', onChange }, names, language), t`Kept in this browser only.`))
}

function ownEmail({ signal, report, tell, act, update }: ScreenContext): () => Content {
  let own: Schemas['Account'] | null = null
  const refresh = async () => {
    own = await read(api.GET('/me', { signal }))
    update()
  }
  refresh().catch(report)

  const prove = async () => {
    await api.POST('/me/email/proof')
    tell(t`A mail with a link is on its way to your address.`)
  }
  const askForEmail = () => {
    const onSubmit = async (data: FormData) => {
      await api.POST('/me/email', { body: { email: String(data.get('email')) } })
      tell(t`A mail with a link is on its way to the new address. Your present one gets a notice.`)
      await refresh()
    }
    openFormDialog(
      { title: t`Change the e-mail address`, submit: t`Continue`, signal, onSubmit },
      () => () =>
        html`
        ${note(t`Nothing changes until you open the link that is mailed to the new address. Your other sessions end then.`)}
        ${field(t`New e-mail address`, html`<input type="email" name="email" required autocomplete="email">`)}`,
    )
  }
  const content = ({ email, is_email_verified, pending_email }: Schemas['Account']) => html`
    ${facts(
      [t`E-mail`, html`${email} ${is_email_verified ? badge(t`proven`, 'good') : badge(t`not proven`, 'waiting')}`],
      [t`Waits for its confirmation`, pending_email],
    )}
    <div class="actions"><button type="button" @click=${askForEmail}>Change the e-mail address</button>
      ${is_email_verified ? nothing : html`<button type="button" @click=${act(prove)}>Prove the address</button>`}</div>`
  return () => card(t`Your address`, own === null ? loading() : content(own))
}

function ownFactors({ signal, report, act, update, keep }: ScreenContext): () => Content {
  let factors: Schemas['AuthenticationFactors'] | null = null
  let codes: readonly string[] | null = null
  keep(() => (codes === null ? '' : t`The recovery codes are shown only once.`))
  const refresh = async () => {
    factors = await read(api.GET('/me/factors', { signal }))
    update()
  }
  refresh().catch(report)
  const change = (work: () => Promise<unknown>) =>
    act(async () => {
      report(null)
      await work()
      await refresh()
    })
  /** The store sends recovery codes with the first factor, and shows them only once. */
  const added = async ({ recovery_codes }: { recovery_codes: readonly string[] | null }) => {
    codes = recovery_codes ?? codes
    await refresh()
  }

  const remove = (name: string, call: () => Promise<unknown>) => {
    const question = { title: t`Remove ${name}?`, text: [t`Other sessions of your account end.`], action: t`Remove`, danger: true }
    const confirmed = async () => {
      if (await confirmAction(question, signal)) await call()
    }
    return html`<button type="button" class="danger" aria-label=${t`Remove ${name}`} @click=${change(confirmed)}>Remove</button>`
  }
  const askForPasskeyName = () => {
    const onSubmit = async (data: FormData) => {
      const { options } = await read(api.POST('/me/passkeys/options'))
      const passkey = (await createPasskey(options)) as Schemas['NewPasskey']['passkey']
      await added(await read(api.POST('/me/passkeys', { body: { name: String(data.get('name')), passkey } })))
    }
    openFormDialog(
      { title: t`Add a passkey`, submit: t`Continue`, signal, onSubmit },
      () => () => field(t`Name`, html`<input name="name" required maxlength="100" .defaultValue=${t`This device`}>`),
    )
  }
  const setUpTotp = async () => {
    const { secret, uri } = await read(api.POST('/me/totp'))
    const onSubmit = async (data: FormData) => {
      await added(await read(api.POST('/me/totp/confirm', { body: { totp_code: String(data.get('code')) } })))
    }
    const code = html`<input name="code" required pattern="[0-9]{6}" maxlength="6" autocomplete="one-time-code">`
    openFormDialog(
      { title: t`Set up an authenticator app`, submit: t`Confirm`, signal, onSubmit },
      () => () =>
        html`
        ${note(t`Read this code with the app, or type the secret into it. Then type the code that it shows.`)}
        ${qrCode(uri)}
        <p>Secret: <code class="secret">${secret}</code></p>
        ${field(t`Code of the app`, code)}`,
    )
  }
  const renew = async () => {
    const text = [t`The present codes stop working, also those on paper.`]
    if (!(await confirmAction({ title: t`Make new recovery codes?`, text, action: t`Make new codes`, danger: true }, signal))) return
    codes = (await read(api.POST('/me/recovery-codes'))).recovery_codes
  }

  const hideCodes = () => {
    codes = null
    update()
  }
  const shownCodes = (list: readonly string[]) => html`<h4>Recovery codes</h4>
    ${note(t`Write these codes down now: they are shown only this time. If you lose your device, each code signs you in once.`)}
    <ul class="codes">${list.map((code) => html`<li><code>${code}</code></li>`)}</ul>
    <button type="button" @click=${hideCodes}>I have stored them</button>`
  const columns = [
    { title: t`Passkey`, cell: ({ name }: Passkey) => name },
    { title: t`Added`, cell: ({ created_at }: Passkey) => time(created_at) },
    { title: t`Last used`, cell: ({ last_used_at }: Passkey) => time(last_used_at) },
    {
      title: t`Change`,
      cell: ({ id, name }: Passkey) => remove(t`the passkey ${name}`, () => api.DELETE('/me/passkeys/{id}', { params: { path: { id } } })),
    },
  ]
  const content = ({ totp, passkeys, recovery_codes_left, second_factor_required }: Schemas['AuthenticationFactors']) => html`
    ${second_factor_required ? nothing : note(t`Your password alone signs you in. Set up a passkey or an authenticator app.`)}
    ${facts([t`Authenticator app`, totp === null ? t`none` : time(totp.created_at)], [t`Recovery codes left`, String(recovery_codes_left)])}
    <div class="actions">
      <button type="button" @click=${askForPasskeyName}>Add a passkey</button>
      ${
        totp === null
          ? html`<button type="button" @click=${change(setUpTotp)}>Set up an authenticator app</button>`
          : remove(t`the authenticator app`, () => api.DELETE('/me/totp'))
      }
      ${second_factor_required ? html`<button type="button" @click=${change(renew)}>New recovery codes</button>` : nothing}
    </div>
    ${passkeys.length === 0 ? note(t`No passkeys.`) : table(t`Passkeys`, columns, passkeys, ({ id }) => id)}`
  return () =>
    card(
      t`How you sign in`,
      html`<div role="status">${codes === null ? nothing : shownCodes(codes)}</div>${factors === null ? loading() : content(factors)}`,
      { wide: true },
    )
}

/** Makes the QR code in the page, so the secret does not leave it. */
function qrCode(text: string): Content {
  const { data, size } = encode(text, { ecc: 'M', border: 4 })
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])))
  return html`<svg viewBox="0 0 ${size} ${size}" class="qr" role="img" aria-label="QR code">${svg`<path d=${dark.join('')}></path>`}</svg>`
}

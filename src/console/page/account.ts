import { encode } from 'uqr'
import { call, pathOf, type Schemas } from './api.ts'
import { showApiKeys } from './api-keys.ts'
import { confirmAction, openFormDialog } from './dialog.ts'
import { actions, button, create, facts, link, note, replaceChildren, table, timeElement } from './dom.ts'
import { field } from './form.ts'
import { showOperators } from './operators.ts'
import { showOwnEmail } from './own-email.ts'
import { createPasskey, explainCeremony } from './passkey-ceremony.ts'
import type { Screen, ScreenContext } from './screen.ts'

type Factors = Schemas['AuthenticationFactors']

/** The operator's own factors; `#account?operators=1` and `#account?keys=1` are for operators who manage access. */
export const account: Screen = {
  title: 'Account',
  scopes: null,
  open(root, context) {
    const { parameters, may } = context
    if (!may('access:write')) return showOwn(root, context)
    const [hasOperators, hasKeys] = [parameters.has('operators'), parameters.has('keys')]
    const content = create('div')
    root.append(
      create(
        'nav',
        { attributes: { 'aria-label': 'Views of the account' } },
        link('#account', 'My account', !hasOperators && !hasKeys && 'page'),
        link('#account?operators=1', 'Operators', hasOperators && 'page'),
        link('#account?keys=1', 'API keys', hasKeys && 'page'),
      ),
      content,
    )
    if (hasOperators) showOperators(content, context)
    else if (hasKeys) showApiKeys(content, context)
    else showOwn(content, context)
  },
}

/** The operator's own e-mail address, passkeys, authenticator app and recovery codes. */
function showOwn(content: HTMLElement, context: ScreenContext): void {
  const email = create('div', {})
  const shown = create('div', {})
  const codes = create('div', { attributes: { role: 'status' } })
  replaceChildren(content, create('h2', {}, 'Account'), email, codes, shown)
  showOwnEmail(email, context)
  const showCodes = (list: readonly string[] | null) => {
    if (list === null) return
    replaceChildren(
      codes,
      create('h3', {}, 'Recovery codes'),
      note('Write these codes down now: they are shown only this time. If you lose your device, each code signs you in once.'),
      create('ul', { class: 'codes' }, ...list.map((code) => create('li', {}, create('code', {}, code)))),
    )
  }
  const refresh = () => call<Factors>('GET', '/me/factors', { signal: context.signal }).then(show, context.report)
  const change = (work: () => Promise<void>) => async () => {
    try {
      context.report(null)
      await work()
      await refresh()
    } catch (error) {
      context.report(explainCeremony(error) === null ? error : new Error(explainCeremony(error) ?? ''))
    }
  }
  const show = (factors: Factors) => replaceChildren(shown, ...factorList(factors, context, { change, showCodes, refresh }))
  void refresh()
}

interface Changes {
  change(work: () => Promise<void>): () => Promise<void>
  showCodes(list: readonly string[] | null): void
  refresh(): Promise<void>
}

function factorList({ totp, passkeys, recovery_codes_left, second_factor_required }: Factors, context: ScreenContext, changes: Changes) {
  const { change, showCodes } = changes
  const remove = (name: string, path: string) =>
    button(
      `Remove ${name}`,
      change(async () => {
        const text = ['Other sessions of your account end.']
        if (await confirmAction({ title: `Remove ${name}?`, text, action: 'Remove' }, context.signal)) await call('DELETE', path)
      }),
    )
  const renew = change(async () => {
    showCodes((await call<Schemas['RecoveryCodes']>('POST', '/me/recovery-codes')).recovery_codes)
  })
  return [
    second_factor_required ? null : note('Your password alone signs you in. Set up a passkey or an authenticator app.'),
    facts(
      ['Authenticator app', totp === null ? 'none' : timeElement(totp.created_at)],
      ['Recovery codes left', String(recovery_codes_left)],
    ),
    actions(
      button('Add a passkey', async () => askForPasskeyName(context, changes)),
      totp === null
        ? button(
            'Set up an authenticator app',
            change(async () => showTotpSetup(await call('POST', '/me/totp'), context, changes)),
          )
        : remove('the authenticator app', '/me/totp'),
      second_factor_required ? button('New recovery codes', renew) : null,
    ),
    passkeys.length === 0
      ? note('No passkeys.')
      : table(
          'Passkeys',
          ['Passkey', 'Added', 'Last used', 'Change'],
          passkeys.map(({ id, name, created_at, last_used_at }) => [
            name,
            timeElement(created_at),
            timeElement(last_used_at),
            remove(`the passkey ${name}`, pathOf`/me/passkeys/${id}`),
          ]),
        ),
  ]
}

function askForPasskeyName({ signal }: ScreenContext, { showCodes, refresh }: Changes): void {
  const name = create('input', { name: 'name', required: true, maxLength: 100, value: 'This device' })
  const onSubmit = async () => {
    const { options } = await call<Schemas['NewPasskeyRequest']>('POST', '/me/passkeys/options')
    try {
      const passkey = await createPasskey(options)
      showCodes((await call<Schemas['PasskeyAdded']>('POST', '/me/passkeys', { body: { name: name.value, passkey } })).recovery_codes)
      await refresh()
    } catch (error) {
      const reason = explainCeremony(error)
      throw reason === null ? error : new Error(reason)
    }
  }
  openFormDialog({ title: 'Add a passkey', submit: 'Continue', signal, onSubmit }, field('Name', name))
}

function showTotpSetup({ secret, uri }: Schemas['TotpSetup'], { signal }: ScreenContext, { showCodes, refresh }: Changes): void {
  const code = create('input', { name: 'code', required: true, pattern: '[0-9]{6}', maxLength: 6, autocomplete: 'one-time-code' })
  const onSubmit = async () => {
    const body = { totp_code: code.value }
    showCodes((await call<Schemas['TotpConfirmed']>('POST', '/me/totp/confirm', { body })).recovery_codes)
    await refresh()
  }
  openFormDialog(
    { title: 'Set up an authenticator app', submit: 'Confirm', signal, onSubmit },
    note('Read this code with the app, or type the secret into it. Then type the code that it shows.'),
    qrCode(uri),
    create('p', {}, 'Secret: ', create('code', { class: 'secret' }, secret)),
    field('Code of the app', code),
  )
}

/** Made in the page: the secret goes nowhere else. */
function qrCode(text: string): SVGSVGElement {
  const { data, size } = encode(text, { ecc: 'M', border: 4 })
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
  const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])))
  path.setAttribute('d', dark.join(''))
  svg.append(path)
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${size} ${size}`, class: 'qr', role: 'img', 'aria-label': 'QR code' }))
    svg.setAttribute(name, value)
  return svg
}

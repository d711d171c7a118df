import { html, nothing } from 'lit-html'
import type { Schemas } from '../store.ts'
import { alerts, attempt, openDialog } from './dialog.ts'
import { createPasskey, hasPasskeys } from './passkey-ceremony.ts'
import { beginAtProvider } from './providers.ts'
import { withFreshProof } from './second-factor.ts'
import { shop, t } from './session.ts'

/** The account page: the customer's e-mail address and ways to sign in. */
export async function showAccount(): Promise<void> {
  const providers = await shop.signInProviders()
  let account = await shop.account()
  await openDialog(t('Your account'), ({ update }) => {
    const change = (event: Event, work: () => Promise<string>) =>
      attempt(event, async () => {
        const done = await work()
        account = await shop.account()
        update()
        return done
      })
    const prove = (event: Event) =>
      change(event, async () => {
        await shop.requestEmailProof()
        return t(
          'A mail with a link is on its way. With it you also have the orders that were placed with your address without an account.',
        )
      })
    const changeEmail = (event: SubmitEvent) => {
      const form = event.currentTarget as HTMLFormElement
      const email = String(new FormData(form).get('email'))
      return change(event, async () => {
        await withFreshProof(() => shop.requestEmailChange(email))
        form.reset()
        return t('A mail with a link is on its way to the new address. Your present one gets a notice.')
      })
    }
    const addPasskey = (event: Event) =>
      change(event, async () => {
        await withFreshProof(() => shop.addPasskey(navigator.platform || t('This device'), createPasskey))
        return t('From now on you can sign in with a passkey.')
      })
    const row = ({ id, name, issuer }: Schemas['SignInProvider']) => {
      const isLinked = account.sign_ins.some((linked) => linked.issuer === issuer)
      const press = (event: Event) =>
        change(event, async () => {
          if (!isLinked) return beginAtProvider(id, 'link').then(() => t('On the way to {} …', name))
          await withFreshProof(() => shop.unlinkSignIn(id))
          return t('You no longer sign in with {}. Other devices are signed out.', name)
        })
      return html`<li>${name} <button type="button" @click=${press}>${isLinked ? t('Remove {}', name) : t('Add {}', name)}</button></li>`
    }
    const { email, is_email_verified, pending_email, role } = account
    return html`<p>${email} (${is_email_verified ? t('confirmed') : t('not confirmed')})</p>
${
  role === 'guest'
    ? nothing
    : html`${pending_email === null ? nothing : html`<p>${t('{} waits to be confirmed: open the link in its mailbox.', pending_email)}</p>`}
<p class="actions"><button type="button" @click=${prove}>${
        is_email_verified ? t('Find orders placed without an account') : t('Confirm this address')
      }</button>
<button type="button" ?hidden=${!hasPasskeys} @click=${addPasskey}>${t('Add a passkey')}</button></p>
<form @submit=${changeEmail}>
<label>${t('New address')} <input type="email" name="email" required maxlength="254" autocomplete="email"></label>
<p class="actions"><button>${t('Change the address')}</button></p>
</form>
${providers.length === 0 ? nothing : html`<h3>${t('Sign in with')}</h3><ul class="rows">${providers.map(row)}</ul>`}`
}
${alerts}`
  })
}

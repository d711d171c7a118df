import { byId, element, whileDisabled } from './dom.js'
import { explain } from './problems.js'
import { beginAtProvider } from './providers.js'
import { withFreshProof } from './step-up.js'

/** The customer's e-mail address, and the providers with which they sign in. */
export async function showAccount(shop) {
  const dialog = byId('own-account')
  const form = byId('email-form')
  const [status, error] = ['status', 'alert'].map((role) => dialog.querySelector(`[role=${role}]`))

  const refresh = async () => {
    const [account, providers] = await Promise.all([shop.account(), shop.signInProviders()])
    const { email, is_email_verified, pending_email, role } = account
    byId('own-email').textContent = `${email} (${is_email_verified ? 'confirmed' : 'not confirmed'})`
    byId('pending-email').textContent =
      pending_email === null ? '' : `${pending_email} waits to be confirmed: open the link in its mailbox.`
    byId('prove-email').textContent = is_email_verified ? 'Find orders placed without an account' : 'Confirm this address'
    byId('of-customers').hidden = role === 'guest'
    byId('providers-title').hidden = providers.length === 0
    byId('own-providers').replaceChildren(...providers.map((provider) => row(provider, account)))
  }
  const change = (button, work) =>
    whileDisabled(button, async () => {
      for (const line of [status, error]) line.textContent = ''
      try {
        status.textContent = await work()
        await refresh()
      } catch (problem) {
        error.textContent = explain(problem)
      }
    })
  const row = ({ id, name, issuer }, { sign_ins }) => {
    const isLinked = sign_ins.some((linked) => linked.issuer === issuer)
    const button = element('button', { type: 'button' }, isLinked ? `Remove ${name}` : `Add ${name}`)
    button.onclick = () =>
      change(button, async () => {
        if (!isLinked) return beginAtProvider(shop, id, 'link').then(() => `On the way to ${name} …`)
        await withFreshProof(shop, () => shop.unlinkSignIn(id))
        return `You no longer sign in with ${name}. Other devices are signed out.`
      })
    return element('li', {}, element('span', {}, name), button)
  }

  byId('prove-email').onclick = ({ target }) =>
    change(target, async () => {
      await shop.requestEmailProof()
      return 'A mail with a link is on its way. With it you also have the orders that were placed with your address without an account.'
    })
  form.onsubmit = (event) => {
    event.preventDefault()
    change(event.submitter, async () => {
      await withFreshProof(shop, () => shop.requestEmailChange(form.elements.email.value))
      form.reset()
      return 'A mail with a link is on its way to the new address. Your present one gets a notice.'
    })
  }
  for (const line of [status, error]) line.textContent = ''
  form.reset()
  await refresh()
  dialog.showModal()
}

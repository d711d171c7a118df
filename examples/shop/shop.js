import { createStorefront, isProblem, storedTokens } from '@storefront/client'
import { showAccount } from './account.js'
import { readBasket } from './basket.js'
import { createCatalogue } from './catalogue.js'
import { showBasket } from './checkout.js'
import { byId, element, whileDisabled } from './dom.js'
import { followMailedLink } from './mail-links.js'
import { showOrders } from './orders.js'
import { startPages } from './pages.js'
import { hasPasskeys } from './passkey-ceremony.js'
import { connectPasskeys } from './passkeys.js'
import { explain } from './problems.js'
import { finishSignIn, showProviders } from './providers.js'
import { withSecondFactor } from './second-factor.js'

const { api: baseUrl } = await (await fetch('/settings.json')).json()
const shop = createStorefront({ baseUrl, tokens: storedTokens(sessionStorage) })

/** Shows messages in an element of the page, each with a button for another attempt if there is one. */
const reportIn = (id) => (text, retry) => {
  const button = retry === undefined ? [] : [' ', element('button', { type: 'button', onclick: retry }, 'Try again')]
  byId(id).replaceChildren(text, ...button)
}
const report = reportIn('message')

/** Asks the customer to sign in unless that is done. Answers whether it is. */
async function signIn(reason = '') {
  if (await shop.isLoggedIn()) return true
  const dialog = byId('account')
  dialog.querySelector('[role=status]').textContent = reason
  dialog.showModal()
  await new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }))
  return shop.isLoggedIn()
}

const showSession = async () => {
  const isLoggedIn = await shop.isLoggedIn()
  byId('open-account').textContent = isLoggedIn ? 'Sign out' : 'Sign in'
  byId('open-own-account').hidden = !isLoggedIn
  byId('add-passkey').hidden = !isLoggedIn || !hasPasskeys
}

/** What the form's buttons do. */
const logIn = {
  login: (credentials) => shop.login(credentials),
  register: (credentials) => shop.register(credentials),
  guest: ({ email }) => shop.loginAsGuest({ email }),
}

byId('account-form').onsubmit = (event) => {
  event.preventDefault()
  const form = event.target
  const error = form.querySelector('.error')
  const { email, password } = Object.fromEntries(new FormData(form))
  // A guest has no password: only the address is checked.
  if (!form.elements.email.reportValidity()) return
  whileDisabled(event.submitter, async () => {
    error.textContent = ''
    try {
      const user = await withSecondFactor(shop, () => logIn[event.submitter.value]({ email, password }))
      if (user === undefined) return
      form.reset()
      byId('account').close()
      if (user === null) report('A mail with a link to confirm the address is on its way.')
    } catch (problem) {
      if (isProblem(problem, 'invalid_credentials')) error.textContent = 'The address or the password is wrong.'
      else if (isProblem(problem, 'email_taken')) error.textContent = 'There is an account with this address: sign in.'
      else error.textContent = explain(problem)
    }
    await showSession()
  })
}
byId('forgot-password').onclick = ({ target }) => {
  const form = byId('account-form')
  if (!form.elements.email.reportValidity()) return
  whileDisabled(target, async () => {
    const [status, error] = ['status', 'alert'].map((role) => form.querySelector(`[role=${role}]`))
    status.textContent = error.textContent = ''
    try {
      await shop.requestPasswordReset(form.elements.email.value)
      status.textContent = 'If there is an account with this address, a mail with a link is on its way.'
    } catch (problem) {
      error.textContent = explain(problem)
    }
  })
}
byId('open-account').onclick = async () => {
  if (await shop.isLoggedIn()) await shop.logout().catch(() => {})
  else await signIn()
  await showSession()
}
byId('open-own-account').onclick = ({ target }) =>
  whileDisabled(target, () => showAccount(shop).catch((problem) => report(explain(problem))))
connectPasskeys(shop, { report, onSignedIn: showSession })
byId('open-basket').onclick = () => showBasket(shop, { signIn, report })
byId('open-orders').onclick = async () => {
  if (await signIn()) await showOrders(shop)
}
for (const button of document.querySelectorAll('[data-close]')) button.onclick = () => button.closest('dialog').close()

const countBasket = () => {
  byId('basket-count').textContent = readBasket().reduce((sum, { quantity }) => sum + quantity, 0)
}
for (const change of ['basket', 'storage']) addEventListener(change, countBasket)
countBasket()
showProviders(shop).catch(() => {})
// Apart from the other messages, which the next page of the list must not replace.
const catalogue = createCatalogue(shop, reportIn('list-message'))
startPages(shop, { catalogue, report: reportIn('page-message') })
const outcome = await finishSignIn(shop)
if (outcome !== null) report(outcome)

const openLink = async () => {
  const told = await followMailedLink(shop, { signIn })
  if (told !== undefined) report(told)
  await showSession()
}
// A link may be opened in the tab of the shop, too.
addEventListener('hashchange', openLink)
await showSession()
await openLink()

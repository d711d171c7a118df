import { showAccount } from './account.ts'
import { countUnits } from './basket.ts'
import { showBasket } from './basket-page.ts'
import { attempt } from './dialog.ts'
import { enhanceList } from './list.ts'
import { followMailedLink } from './mail-links.ts'
import { showOrder } from './order.ts'
import { showOrderForm } from './order-form.ts'
import { showOrders } from './orders.ts'
import { explain } from './problems.ts'
import { enhanceProduct } from './product.ts'
import { finishSignIn } from './providers.ts'
import { byId, href, report, shop, showSession } from './session.ts'
import { signIn } from './sign-in.ts'
import { signOut } from './sign-out.ts'

const PAGES: Readonly<Record<string, (root: HTMLElement) => unknown>> = {
  basket: showBasket,
  checkout: showOrderForm,
  list: enhanceList,
  order: showOrder,
  orders: showOrders,
  product: enhanceProduct,
}

const { page } = document.body.dataset
/** Whether the page shows personal data of the customer. */
const isPersonal = ['checkout', 'order', 'orders'].includes(page ?? '')
const countBasket = () => {
  byId('basket-count').textContent = String(countUnits())
}
for (const change of ['basket', 'storage', 'pageshow']) addEventListener(change, countBasket)
countBasket()

// The back/forward cache has the page as it was left, and the customer may have signed out since.
addEventListener('pageshow', async ({ persisted }) => {
  if (!persisted) return
  if (isPersonal || document.querySelector('dialog') !== null) {
    document.documentElement.hidden = true
    location.reload()
  } else await showSession()
})

byId('open-account').onclick = (event) =>
  attempt(event, async () => {
    if (!(await shop.isLoggedIn())) await signIn()
    else {
      await signOut()
      if (isPersonal) location.href = href('/')
    }
    await showSession()
  })
byId('open-own-account').onclick = (event) => attempt(event, () => showAccount().catch((error) => report(explain(error))))

const openLink = async () => {
  const told = await followMailedLink()
  if (told !== undefined) report(told)
  await showSession()
}
// A link may also be opened in a tab that already shows the shop.
addEventListener('hashchange', openLink)

// A customer who comes back from a provider is signed in before the page reads the session.
const outcome = await finishSignIn()
if (outcome !== null) report(outcome)
await showSession()
if (page !== 'order') await showPage()
await openLink()
// The address has the token of an order link, like the tokens of account links.
if (page === 'order') await showPage()

async function showPage(): Promise<void> {
  if (page !== undefined && Object.hasOwn(PAGES, page)) await PAGES[page]?.(byId('app'))
}

import { createStorefront, storedTokens } from '../store.ts'
import { createView, type Language } from '../view.ts'

const { lang, dataset } = document.documentElement

/** The client of the store. Its tokens survive a reload and end with the tab. */
export const shop = createStorefront({ baseUrl: dataset.store ?? '', tokens: storedTokens(sessionStorage) })
export const view = createView(lang as Language, new URLSearchParams(location.search))
export const { t, money, href } = view

/** The element with this id, which the server has rendered. */
export const byId = <Kind extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as Kind

/** Shows a message at the top of the page. */
export const report = (text: string) => {
  byId('message').textContent = text
}

/** Shows the customer in the header, and informs the page with the event `session`. */
export async function showSession(): Promise<void> {
  const isLoggedIn = await shop.isLoggedIn()
  byId('open-account').textContent = isLoggedIn ? t('Sign out') : t('Sign in')
  byId('open-own-account').hidden = !isLoggedIn
  dispatchEvent(new Event('session'))
}

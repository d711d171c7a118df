import { createStorefront, storedTokens, type TokenStore } from '../store.ts'
import { createView, type Language } from '../view.ts'

const { lang, dataset } = document.documentElement

/** Stores the tokens until the tab is closed. A duplicated tab has the same session, and learns its new tokens. */
function tabTokens(): TokenStore {
  const { load, save } = storedTokens(sessionStorage)
  const channel = new BroadcastChannel('shop.tokens')
  channel.onmessage = async ({ data: [former, next] }) => {
    if ((await load())?.refresh_token !== former) return
    await save(next)
    await showSession()
  }
  return {
    load,
    save: async (next) => {
      const former = await load()
      await save(next)
      if (former !== null) channel.postMessage([former.refresh_token, next])
    },
  }
}

/** The client of the store. */
export const shop = createStorefront({ baseUrl: dataset.store ?? '', tokens: tabTokens() })
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

const reloadIfSignedIn = async () => {
  if (await shop.isLoggedIn()) location.reload()
}

/** Reloads a page that needs a session when the customer signs in from the header. */
export const reloadOnSignIn = () => addEventListener('session', reloadIfSignedIn)

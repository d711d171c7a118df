import { account } from './account.ts'
import { call, isRefusal, onAway, onProofNeeded, type Schemas, type Scope, SignedOut } from './api.ts'
import { showChoosePassword } from './choose-password.ts'
import { create, getElement, link, replaceChildren } from './dom.ts'
import { lake } from './lake.ts'
import { mails } from './mails.ts'
import { createNames, type Names } from './names.ts'
import { orders } from './orders.ts'
import { overview } from './overview.ts'
import { confirmEmail, showRevertEmail } from './own-email.ts'
import { pipeline } from './pipeline.ts'
import { products } from './products.ts'
import type { Screen } from './screen.ts'
import { accessToken, signOut } from './session.ts'
import { askForProof, showSignIn } from './sign-in.ts'

const SCREENS = new Map<string, Screen>(Object.entries({ overview, orders, products, mails, pipeline, lake, account }))
const AWAY_RETRY_MS = 2_000

const root = getElement('screen')
const [navigation] = document.getElementsByTagName('nav')
let open = new AbortController()
/** The operator's permissions; null while nobody is signed in. */
let permissions: (Permissions & { names: Names }) | null = null
/** The token from the mail to an operator's address, until a session has used it. */
let tokenOfEmail: string | null = null

/** Shows the screen that the address names, or the first one for a name that is unknown or not for this operator. `outcome`: what to tell at once. */
function showScreen(outcome = ''): void {
  if (permissions === null) return
  const { userId, role, scopes, names } = permissions
  open.abort()
  open = new AbortController()
  const { signal } = open
  const [given = '', query = ''] = location.hash.slice(1).split('?', 2)
  const shown = screensFor(scopes)
  const [name, screen] = shown.find(([known]) => known === given) ?? shown[0] ?? []
  if (name === undefined || screen === undefined) {
    replaceChildren(root, create('h2', {}, 'Nothing to show'), create('p', {}, `The role ${role} has no screen in the console.`))
    return
  }
  document.title = `${screen.title} – Storefront console`
  for (const anchor of navigation?.querySelectorAll('a') ?? []) {
    if (anchor.hash === `#${name}`) anchor.setAttribute('aria-current', 'page')
    else anchor.removeAttribute('aria-current')
  }
  const message = create('p', { class: 'message', attributes: { role: 'status' } })
  const fault = create('p', { class: 'error', attributes: { role: 'alert' } })
  const content = create('div', { class: `screen ${name}` })
  replaceChildren(root, message, fault, content)
  message.textContent = outcome
  const report = (error: unknown) => {
    if (signal.aborted) return
    if (error === null) {
      fault.textContent = ''
      return
    }
    if (error instanceof SignedOut) return askForSession(error.message)
    // A store that does not answer has a line of its own.
    if (error instanceof TypeError) return
    if (isRefusal(error, 'second_factor_setup_required') && name !== 'account') {
      location.hash = '#account'
      return
    }
    fault.textContent = error instanceof Error ? error.message : String(error)
  }
  const tell = (text: string) => {
    fault.textContent = ''
    message.textContent = text
  }
  screen.open(content, {
    parameters: new URLSearchParams(name === given ? query : ''),
    signal,
    userId,
    may: (scope) => scopes.has(scope),
    names,
    report,
    tell,
  })
}

/** What the signed-in operator may do. A role changes only with a new session. */
interface Permissions {
  userId: string
  role: Schemas['User']['role']
  scopes: ReadonlySet<Scope>
}

async function readPermissions(): Promise<Permissions> {
  const { id, role, scopes } = await call<Schemas['User']>('GET', '/me')
  return { userId: id, role, scopes: new Set(scopes) }
}

function screensFor(scopes: Permissions['scopes']): [string, Screen][] {
  return [...SCREENS].filter(([, screen]) => screen.scopes === null || screen.scopes.some((scope) => scopes.has(scope)))
}

function askForSession(reason: string): void {
  open.abort()
  setSignedIn(false)
  showSignIn(root, reason, () => void begin())
}

/** Whether the address has the link of a mail, which is then followed, also while somebody is signed in. */
function followMailedLink(): boolean {
  const mailed = takeMailedLink()
  if (mailed === null) return false
  open.abort()
  setSignedIn(false)
  if (mailed.action === 'choose-password') showChoosePassword(root, mailed.token, askForSession)
  else if (mailed.action === 'revert-email') showRevertEmail(root, mailed.token, askForSession)
  else {
    tokenOfEmail = mailed.token
    void enter('Sign in with the present e-mail address of your account. That confirms the address in the mail.')
  }
  return true
}

/** Reads what the operator may do, however long the store does not answer, and shows the screens for it. */
async function begin(): Promise<void> {
  replaceChildren(root)
  let outcome = ''
  for (;;) {
    try {
      const read = await readPermissions()
      if (tokenOfEmail !== null) outcome = await confirmEmail(tokenOfEmail)
      permissions = { ...read, names: createNames((scope) => read.scopes.has(scope)) }
      break
    } catch (error) {
      if (error instanceof SignedOut) return askForSession(error.message)
      await new Promise((resolve) => setTimeout(resolve, AWAY_RETRY_MS))
    }
  }
  // The account is not listed, because its link is beside the button that signs out.
  const listed = screensFor(permissions.scopes).filter(([name]) => name !== 'account')
  const links = listed.map(([name, { title }]) => link(`#${name}`, title))
  if (navigation !== undefined) replaceChildren(navigation, ...links)
  getElement('operator').textContent = permissions.role
  setSignedIn(true)
  if (tokenOfEmail !== null) history.replaceState(null, '', '#account')
  tokenOfEmail = null
  showScreen(outcome)
}

/** Says that the operator has signed out only when the store has ended the session. */
async function endSession(): Promise<void> {
  open.abort()
  setSignedIn(false)
  document.title = 'Signing out – Storefront console'
  const state = create('p', { attributes: { role: 'alert' } }, 'Signing out …')
  replaceChildren(root, create('h2', {}, 'Signing out'), state)
  for (;;) {
    try {
      await signOut()
      return askForSession('You have signed out.')
    } catch {
      state.textContent = 'You are still signed in: the store has not ended your session. This page retries by itself; keep it open.'
      state.className = 'error'
      await new Promise((resolve) => setTimeout(resolve, AWAY_RETRY_MS))
    }
  }
}

function setSignedIn(isSignedIn: boolean): void {
  if (!isSignedIn) permissions = null
  if (navigation !== undefined) navigation.hidden = !isSignedIn
  getElement('account').hidden = !isSignedIn
}

async function start(): Promise<void> {
  onProofNeeded(askForProof)
  getElement('sign-out').addEventListener('click', endSession)
  onAway((isAway) => {
    getElement('away').textContent = isAway ? 'The store does not answer. This page retries and comes back by itself.' : ''
  })
  window.addEventListener('hashchange', () => {
    if (!followMailedLink() && navigation?.hidden === false) showScreen()
  })
  if (!followMailedLink()) await enter('')
}

/** Begins with the session that there is, or asks for one. */
async function enter(reason: string): Promise<void> {
  for (;;) {
    try {
      if ((await accessToken()) === null) return askForSession(reason)
      return begin()
    } catch {
      getElement('away').textContent = 'The store does not answer. This page retries and comes back by itself.'
      await new Promise((resolve) => setTimeout(resolve, AWAY_RETRY_MS))
      getElement('away').textContent = ''
    }
  }
}

/** What the link of a mail to an operator is for. */
interface MailedLink {
  action: 'choose-password' | 'confirm-email' | 'revert-email'
  token: string
}

const ACTIONS: Readonly<Record<string, MailedLink['action']>> = {
  'operator-invited': 'choose-password',
  'reset-password': 'choose-password',
  'confirm-email': 'confirm-email',
  'revert-email': 'revert-email',
}

/**
 * Takes a mail's one-time token out of the page's address, so that neither the history nor a bookmark keeps it. Returns
 * null if there is none.
 */
function takeMailedLink(): MailedLink | null {
  const [, name = '', token = ''] = /^#([a-z-]+)=([\w-]+)$/.exec(location.hash) ?? []
  const action = ACTIONS[name]
  if (action === undefined) return null
  history.replaceState(null, '', location.pathname + location.search)
  return { action, token }
}

await start()

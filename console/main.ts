import { explain, isProblem, listenToApi, NoAnswer, type Schemas, type Scope, SignedOut } from './kit/api.ts'
import { confirmAction, type Dialog, openDialog } from './kit/dialog.ts'
import { unsentChanges } from './kit/form.ts'
import { type Content, html, keyed, loading, nothing, render } from './kit/html.ts'
import { language, plural, t, word } from './kit/language.ts'
import { createNames, type Names } from './kit/names.ts'
import type { Screen, ScreenContext } from './kit/screen.ts'
import { findOperator, type Operator, setOwner, signOut, startAgainForAnother } from './kit/session.ts'
import { account } from './screens/account.ts'
import { changeList } from './screens/changes.ts'
import { customers } from './screens/customers.ts'
import { lake } from './screens/lake.ts'
import { mails } from './screens/mails.ts'
import { orders } from './screens/orders.ts'
import { overview } from './screens/overview.ts'
import { pipeline } from './screens/pipeline.ts'
import { products } from './screens/products.ts'
import { createSearch } from './screens/search.ts'
import { settings, settingsPlaces } from './screens/settings.ts'
import { type Alone, askForProof, choosePasswordView, confirmEmail, revertEmailView, signInView } from './screens/sign-in.ts'

const SCREENS = new Map<string, Screen>(
  Object.entries({
    overview,
    orders,
    products,
    customers,
    mails,
    pipeline,
    lake,
    changes: changeList,
    settings,
    account,
  }),
)
const AWAY_RETRY_MS = 2_000
const AWAY = t`The store does not answer. This page retries and comes back by itself.`

/** What the signed-in operator may do. A role changes only with a new session. */
interface Permissions {
  userId: string
  role: Schemas['User']['role']
  scopes: ReadonlySet<Scope>
  names: Names
  search: ReturnType<typeof createSearch>
}

/** A message at the bottom of the page. */
interface Toast {
  text: string
  isError: boolean
  /** The message disappears when the address is another one. */
  hash: string
  undo?: readonly [text: string, work: () => Promise<unknown>]
  fault?: unknown
}

/** The operator's permissions, or null when nobody is signed in. */
let permissions: Permissions | null = null
/** The screen's name in the navigation, its content, and the controller that ends it. */
let current = ''
let content: () => Content = () => nothing
let open = new AbortController()
let away = ''
let toast: Toast | null = null
/** What would be lost besides form changes. */
let guards: (() => string)[] = []
/** The sign-in dialog above the screen, while it is open. */
let returning: Promise<boolean> | null = null
/** The address of the shown screen. */
let shownHash = ''
/** The token of a mail that confirms the operator's address, until a session has used it. */
let tokenOfEmail: string | null = null
let isRendering = false
/** Whether the screen's heading shall get the focus. */
let isArriving = false

/** Renders the page soon, once for all changes made until then. */
function update(): void {
  if (isRendering) return
  isRendering = true
  queueMicrotask(() => {
    isRendering = false
    render(page(), document.body)
    document.getElementById('starting')?.remove()
    if (isArriving) focusHeading()
  })
}

/**
 * Moves the focus to the heading of an opened screen as soon as there is one, unless the operator has moved the focus.
 */
function focusHeading(): void {
  const heading = document.querySelector<HTMLElement>('main h2')
  if (heading === null) return
  isArriving = false
  if (document.activeElement?.closest('main, dialog')) return
  heading.tabIndex = -1
  heading.focus({ preventScroll: true })
}

function skip(event: Event): void {
  event.preventDefault()
  isArriving = true
  focusHeading()
  window.scrollTo({ top: 0 })
}

function page(): Content {
  return html`
    ${permissions === null ? nothing : html`<a class="skip" href="#main" @click=${skip}>Skip to the content</a>`}
    <header>
      <h1>Storefront</h1>
      ${
        permissions === null
          ? nothing
          : html`<nav aria-label="Screens">${listedScreens(permissions.scopes).map(([name, { title }]) => html`<a href="#${name}" aria-current=${name === current ? 'page' : nothing}>${title}</a>`)}</nav>
            ${permissions.search()}
            <div id="account">
              <span>${word(permissions.role)}</span>
              <a href="#account" aria-current=${current === 'account' ? 'page' : nothing}>Account</a>
              <button type="button" @click=${endSession}>Sign out</button>
            </div>`
      }
    </header>
    <p id="away" role="status">${away}</p>
    <main id="main" class="screen ${current}">${keyed(content, content())}</main>
    <div id="toast">
      <p role="status">${toast?.isError === false ? toast.text : ''}</p>
      <p role="alert" class="error">${toast?.isError === true ? toast.text : ''}</p>
      ${toast?.undo === undefined ? nothing : html`<button type="button" @click=${undo}>${toast.undo[0]}</button>`}
      ${toast === null ? nothing : html`<button type="button" aria-label="Close the message" @click=${() => say(null)}>×</button>`}
    </div>`
}

function say(next: Omit<Toast, 'hash'> | null): void {
  toast = next === null ? null : { ...next, hash: location.hash }
  update()
}

async function undo(): Promise<void> {
  const [, work] = toast?.undo ?? []
  say(null)
  await work?.().catch((error) => say({ text: explain(error), isError: true }))
}

function screensFor(scopes: Permissions['scopes']): [string, Screen][] {
  return [...SCREENS].filter(([, screen]) => screen.scopes === null || screen.scopes.some((scope) => scopes.has(scope)))
}

/** The account screen has its link beside the sign-out button. */
function listedScreens(scopes: Permissions['scopes']): [string, Screen][] {
  return screensFor(scopes).filter(([name]) => name !== 'account')
}

/** Ends the shown screen. Returns the signal of the next one. */
function leave(): AbortSignal {
  open.abort()
  open = new AbortController()
  guards = []
  if (toast?.hash !== location.hash) toast = null
  return open.signal
}

/**
 * Shows the screen that the address names, or the first one when the name is unknown or the operator may not see it.
 * `outcome` is a message to show at once.
 */
function showScreen(outcome = ''): void {
  if (permissions === null) return
  const focused = document.activeElement?.closest('main') ? document.activeElement.getAttribute('name') : null
  const signal = leave()
  const { userId, role, scopes, names } = permissions
  shownHash = location.hash
  const [given = '', query = ''] = location.hash.slice(1).split('?', 2)
  const shown = screensFor(scopes)
  const [name, screen] = shown.find(([known]) => known === given) ?? shown[0] ?? []
  if (name === undefined || screen === undefined) {
    content = () => html`<h2>Nothing to show</h2><p>The role ${word(role)} has no screen in the console.</p>`
    update()
    return
  }
  const [isFirst, isSame] = [current === '', current === name]
  current = name
  const context: ScreenContext = {
    parameters: new URLSearchParams(name === given ? query : ''),
    signal,
    userId,
    names,
    may: (scope) => scopes.has(scope),
    update: () => signal.aborted || update(),
    title: (text) => {
      if (!signal.aborted) document.title = t`${text} – Storefront console`
    },
    report(error, ended) {
      if (signal.aborted) return
      if (error === null) {
        if (toast?.isError && (ended === undefined || toast.fault === ended)) say(null)
      } else if (error instanceof SignedOut) askForSession(error.message)
      else if (isProblem(error, 'second_factor_setup_required') && name !== 'account') location.hash = '#account'
      // The page has a separate line for a store that does not answer.
      else if (!(error instanceof NoAnswer)) say({ text: explain(error), isError: true, fault: error })
    },
    tell: (text, undo) => say(text === '' ? null : { text, isError: false, ...(undo === undefined ? {} : { undo }) }),
    act: (work) => async (event) => {
      const control = event.currentTarget as HTMLButtonElement
      if (event.type === 'click') control.disabled = true
      try {
        await work(event)
      } catch (error) {
        context.report(error)
      } finally {
        if (event.type === 'click') control.disabled = false
      }
    },
    keep: (reason) => guards.push(reason),
  }
  context.title(screen.title)
  content = screen.open(context)
  if (outcome !== '') context.tell(outcome)
  update()
  // A search opens a new screen, and its field keeps the focus.
  const keepsFocus = isSame && focused !== null
  // A newly loaded page begins at its top, with the link that skips the navigation.
  isArriving = !isFirst && !keepsFocus
  if (keepsFocus) queueMicrotask(() => document.querySelector<HTMLElement>(`main [name="${CSS.escape(focused)}"]`)?.focus())
}

function losses(): string[] {
  if (permissions === null) return []
  const count = unsentChanges(document)
  const changes = count === 0 ? [] : [plural(count, t`${count} change is not saved.`, t`${count} changes are not saved.`)]
  return [...changes, ...guards.map((reason) => reason()).filter((reason) => reason !== '')]
}

const mayLeave = (signal: AbortSignal) =>
  confirmAction({ title: t`Leave without saving?`, text: losses(), action: t`Leave`, danger: true }, signal)

/** Shows the screen of the new address, unless the operator wants to keep the entered values. */
async function follow(): Promise<void> {
  if (followMailedLink() || permissions === null) return
  if (losses().length === 0 || location.hash === shownHash) return showScreen()
  // The address of the form returns until the operator has answered.
  history.pushState(null, '', shownHash || location.pathname)
  if (!(await mayLeave(open.signal))) return
  leave()
  content = () => nothing
  render(page(), document.body)
  history.back()
}

/** Shows a view without a session, such as the sign-in. */
function showAlone(view: Alone = () => loading): void {
  const signal = leave()
  permissions = null
  setOwner(null)
  current = ''
  content = view(() => signal.aborted || update())
  update()
}

function askForSession(reason: string): void {
  showAlone(signInView(reason, () => void enter()))
}

/**
 * Opens a sign-in dialog above the screen when something would be lost. Resolves to whether the same operator has
 * signed in.
 */
function signInAgain(): Promise<boolean> {
  if (permissions === null) return Promise.resolve(false)
  if (losses().length === 0) return startAgainForAnother()
  returning ??= askAboveScreen(permissions.userId).finally(() => {
    returning = null
  })
  return returning
}

function askAboveScreen(userId: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let isSignedIn = false
    const signedIn = async () => {
      const isSame = (await findOperator())?.id === userId
      if (!isSame) void enter()
      resolve(isSame)
    }
    const content = (dialog: Dialog) =>
      signInView(t`Your session has ended. What you entered stays.`, () => {
        isSignedIn = true
        dialog.close()
        signedIn().catch(reject)
      })(dialog.update)
    openDialog(t`Sign in again`, open.signal, content, { onClose: () => isSignedIn || resolve(false) })
  })
}

/** Follows a mailed link in the address, even while somebody is signed in. Returns whether there was one. */
function followMailedLink(): boolean {
  const mailed = takeMailedLink()
  if (mailed === null) return false
  const { action, token } = mailed
  if (action === 'choose-password') showAlone(choosePasswordView(token, askForSession))
  else if (action === 'revert-email') showAlone(revertEmailView(token, askForSession))
  else {
    tokenOfEmail = token
    showAlone()
    void enter(t`Sign in with the present e-mail address of your account. That confirms the address in the mail.`)
  }
  return true
}

/** Reports the sign-out only after the store has ended the session. */
async function endSession(): Promise<void> {
  if (losses().length > 0 && !(await mayLeave(open.signal))) return
  showAlone()
  document.title = t`Signing out – Storefront console`
  let state: Content = html`<p role="alert">Signing out …</p>`
  content = () => html`<h2>Signing out</h2>${state}`
  for (;;) {
    update()
    try {
      await signOut()
      return askForSession(t`You have signed out.`)
    } catch {
      state = html`<p role="alert" class="error">You are still signed in: the store has not ended your session. This page retries by itself; keep it open.</p>`
      await new Promise((resolve) => setTimeout(resolve, AWAY_RETRY_MS))
    }
  }
}

function setAway(isAway: boolean): void {
  away = isAway ? AWAY : ''
  update()
}

async function start(): Promise<void> {
  document.documentElement.lang = language
  listenToApi({ away: setAway, proof: askForProof, signedOut: signInAgain })
  window.addEventListener('hashchange', () => void follow())
  window.addEventListener('keydown', (event) => permissions?.search.onKey(event))
  window.addEventListener('beforeunload', (event) => {
    if (losses().length > 0) event.preventDefault()
  })
  if (!followMailedLink()) await enter()
}

/** Shows the screens of the current session, or the sign-in. Retries until the store answers. */
async function enter(reason = ''): Promise<void> {
  for (;;) {
    try {
      const operator = await findOperator()
      if (operator === null) return askForSession(reason)
      return begin(operator, tokenOfEmail === null ? '' : await confirmEmail(tokenOfEmail))
    } catch (error) {
      if (!(error instanceof NoAnswer)) return askForSession(explain(error))
      setAway(true)
      await new Promise((resolve) => setTimeout(resolve, AWAY_RETRY_MS))
      setAway(false)
    }
  }
}

function begin({ id, role, scopes: given }: Operator, outcome: string): void {
  setOwner(id)
  const scopes = new Set(given)
  const may = (scope: Scope) => scopes.has(scope)
  const places = [...screensFor(scopes).map(([name, { title }]) => ({ title, href: `#${name}` })), ...settingsPlaces(may)]
  const search = createSearch({ may, places, update, onSignedOut: ({ message }) => askForSession(message) })
  permissions = { userId: id, role, scopes, names: createNames(may, update), search }
  if (tokenOfEmail !== null) history.replaceState(null, '', '#account')
  tokenOfEmail = null
  showScreen(outcome)
}

/** The purpose of a link in a mail to an operator. */
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
 * Removes a mail's one-time token from the page's address, so neither the history nor a bookmark keeps it. Returns null
 * when the address has none.
 */
function takeMailedLink(): MailedLink | null {
  const [, name = '', token = ''] = /^#([a-z-]+)=([\w-]+)$/.exec(location.hash) ?? []
  const action = ACTIONS[name]
  if (action === undefined) return null
  history.replaceState(null, '', location.pathname + location.search)
  return { action, token }
}

await start()

import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'
import type { OperatorRole } from '../src/http/scopes.ts'
import { assertAccessible, openBrowser } from './chromium.ts'
import type { Cleanup } from './cleanup.ts'
import { registerOperator } from './register-operator.ts'
import { type Account, type StoreOverrides, startStore, type TestStore } from './store.ts'

export interface OpenConsole {
  store: TestStore
  operator: Account
  page: Page
  /** What went wrong in the page; a test ends with asserting that it is empty. */
  complaints: string[]
  /** The address of the console, without a screen. */
  address: string
  /** Opens a screen by its name in the navigation. */
  show(screen: string): Promise<void>
}

interface View {
  width?: number
  isDark?: boolean
}

export const HOSTILE = `"><script>document.title='taken'</script><img src=x onerror="document.title='taken'">`

/** The page on which most tests click, because more can be in the way. `assertUsable` looks at a wide page, too. */
export const NARROW = { width: 390, isDark: true }
export const WIDE = { width: 1_280, isDark: false }

/** A store whose API listens, `prepare`d, and its console, signed in. */
export async function openConsole(
  t: Cleanup,
  view: View = {},
  {
    prepare = async () => {},
    role,
    ...overrides
  }: StoreOverrides & { prepare?: (store: TestStore) => Promise<void>; role?: OperatorRole } = {},
): Promise<OpenConsole> {
  const store = await startStore(t, overrides)
  return openConsoleOf(t, store, { view, prepare, ...(role === undefined ? {} : { role }) })
}

/** The console of a store that runs, signed in as a new operator. */
export async function openConsoleOf(
  t: Cleanup,
  store: TestStore,
  { view = {}, role, prepare = async () => {} }: { view?: View; role?: OperatorRole; prepare?: (store: TestStore) => Promise<void> } = {},
): Promise<OpenConsole> {
  const operator = await registerOperator(store, role)
  await prepare(store)
  const address = `${store.localOrigin}/console`
  const { page, complaints } = await (await openBrowser(t)).open(view)
  await page.goto(address)
  await signIn(page, operator)
  const show = async (screen: string) => {
    await page.getByRole('banner').getByRole('link', { name: screen, exact: true }).click()
    await page.getByRole('heading', { level: 2, name: screen }).waitFor()
  }
  return { store, operator, page, complaints, address, show }
}

/** What makes the page wider than the window. */
const TOO_WIDE = `document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] : [...document.querySelectorAll('body *')]
  .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth && !each.parentElement.closest('.scroll'))
  .map((each) => each.outerHTML.slice(0, 120))`

/**
 * What the page shows now is accessible, and no wider than the page: as it is, and on a page of the other width and
 * colours.
 */
export async function assertUsable(page: Page, what: string): Promise<void> {
  const shown = {
    width: page.viewportSize()?.width,
    isDark: (await page.evaluate(`matchMedia('(prefers-color-scheme: dark)').matches`)) as boolean,
  }
  for (const { width, isDark } of [shown.width === NARROW.width ? WIDE : NARROW, { ...shown, width: shown.width ?? WIDE.width }]) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme: isDark ? 'dark' : 'light' })
    const view = `${what} at ${width} px`
    await assertAccessible(page, view)
    await assertFits(page, view)
  }
}

export async function assertFits(page: Page, what: string): Promise<void> {
  assert.deepEqual(await page.evaluate(TOO_WIDE), [], `${what}: wider than the page`)
}

/** What went wrong besides requests that the store has refused, which Chromium reports. */
export function withoutRefusals(complaints: readonly string[]): string[] {
  return complaints.filter((text) => !/status of 4\d\d/.test(text))
}

export async function signIn(page: Page, { email, password }: { email: string; password: string }): Promise<void> {
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation', { name: 'Screens' }).waitFor()
}

/** Puts text where the cursor is, as a person does who pastes it. */
export async function paste(page: Page, text: string): Promise<void> {
  await page.evaluate(`{
    const clipboardData = new DataTransfer()
    clipboardData.setData('text/plain', ${JSON.stringify(text)})
    document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }))
  }`)
}

/** The same in the field with this label. */
export async function pasteInto(page: Page, label: string, text: string): Promise<void> {
  await page.getByLabel(label, { exact: true }).focus()
  await paste(page, text)
}

/** The first request of these has no answer for the page, although the store gets it. */
export async function loseFirstAnswer(page: Page, address: string): Promise<void> {
  let isLost = true
  await page.route(address, async (route) => {
    if (!isLost) return route.continue()
    isLost = false
    await route.fetch()
    await route.abort('connectionreset')
  })
}

/** Sets filters of a list by their labels, as a person does who opens "Filter" and presses Enter. */
export async function filterBy(page: Page, filters: Readonly<Record<string, string>>): Promise<void> {
  const search = page.getByRole('main').getByRole('search')
  await search.getByText('Filter', { exact: true }).click()
  for (const [label, value] of Object.entries(filters)) {
    const control = search.getByLabel(label, { exact: true })
    if ((await control.evaluate((element) => (element as unknown as { tagName: string }).tagName)) === 'SELECT')
      await control.selectOption(value)
    else await control.fill(value)
  }
  await search.getByRole('button', { name: 'Apply' }).click()
}

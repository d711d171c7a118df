import assert from 'node:assert/strict'
import { after } from 'node:test'
import axe from 'axe-core'
import { type Browser, chromium, type Page, type Request } from 'playwright-core'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { BRAKE_MS, eventually } from './eventually.ts'
import { findProgram, missingProgram } from './programs.ts'

// The shell has no windows of its own and starts in a third of the time.
const SHELL = 'chromium-headless-shell'
const PROGRAM = findProgram(SHELL) ?? findProgram('chromium')

/** Why a test in a browser cannot run; false when it can. With CI=true it runs, and fails without a browser. */
export const NO_CHROMIUM = PROGRAM === null && missingProgram(SHELL, SHELL)

/**
 * A page of the system's Chromium, with what went wrong in it: errors, warnings of the console, requests to hosts
 * other than this machine.
 */
export interface BrowserPage {
  page: Page
  complaints: string[]
}

const QUIET_MS = 300

/** The requests of a page that have no answer yet, and the last change of them. */
interface Traffic {
  waiting: Set<Request>
  changedAt: number
  last: string
}

const traffics = new WeakMap<Page, Traffic>()
interface BrowserSettings {
  width?: number
  isDark?: boolean
  /** Whether pages may run scripts; they may by default. */
  hasScripts?: boolean
  /** The language of the browser, such as `de-AT`. */
  locale?: string
}

let started: Promise<Browser> | null = null
after(async () => (await started)?.close())

/**
 * A browser that reaches this machine only: one for the file, whose pages share nothing and are closed after the
 * test.
 */
export async function openBrowser(t: Cleanup): Promise<{ open(settings?: BrowserSettings): Promise<BrowserPage> }> {
  started ??= chromium.launch({
    executablePath: PROGRAM ?? SHELL,
    // Chromium's sandbox does not start for root or in a container; it shows only pages of these tests. There is no
    // GPU.
    args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost'],
  })
  const browser = await started
  return {
    open: async ({ width = 1_280, isDark = false, hasScripts = true, locale = 'en-US' } = {}) => {
      const colorScheme = isDark ? 'dark' : 'light'
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, javaScriptEnabled: hasScripts, locale })
      context.setDefaultTimeout(BRAKE_MS)
      onCleanup(t, () => context.close())
      const page = await context.newPage()
      const complaints: string[] = []
      watchTraffic(page)
      page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
      page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type())) complaints.push(`${message.type()}: ${message.text()}`)
      })
      page.on('request', (request) => {
        const { hostname, protocol } = new URL(request.url())
        if (protocol.startsWith('http') && !['127.0.0.1', 'localhost'].includes(hostname)) complaints.push(`request to ${hostname}`)
      })
      // Begun and refused by the page's policy: nothing left this machine.
      page.on('requestfailed', (request) => {
        const at = complaints.indexOf(`request to ${new URL(request.url()).hostname}`)
        if (at >= 0 && /BLOCKED|csp/i.test(request.failure()?.errorText ?? '')) complaints.splice(at, 1)
      })
      return { page, complaints }
    },
  }
}

function watchTraffic(page: Page): void {
  const traffic: Traffic = { waiting: new Set(), changedAt: performance.now(), last: '' }
  traffics.set(page, traffic)
  const changed = (request: Request) => Object.assign(traffic, { changedAt: performance.now(), last: request.url() })
  const ended = (request: Request) => {
    if (traffic.waiting.delete(request)) changed(request)
  }
  page.on('request', (request) => {
    traffic.waiting.add(request)
    changed(request)
  })
  page.on('requestfinished', ended)
  page.on('requestfailed', ended)
}

/** Waits until all requests of the page have had their answers for a while. */
export async function untilQuiet(page: Page): Promise<void> {
  const traffic = traffics.get(page)
  assert.ok(traffic)
  const isQuiet = () => traffic.waiting.size === 0 && performance.now() - traffic.changedAt > QUIET_MS
  const what = () => `answers to ${[...traffic.waiting].map((request) => request.url()).join(', ') || traffic.last}`
  await eventually(async () => isQuiet(), { timeoutMs: 30_000, what: 'a quiet page' }).catch((cause: unknown) => {
    throw new Error(`the page waits for ${what()}`, { cause })
  })
}

/** No rule of axe-core is violated by what the page shows now. */
export async function assertAccessible(page: Page, what: string): Promise<void> {
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(axe.source)
  const violations = await page.evaluate(
    `axe.run(document, { iframes: false }).then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes[0].html))`,
  )
  assert.deepEqual(violations, [], what)
}

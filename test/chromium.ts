import assert from 'node:assert/strict'
import { after } from 'node:test'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { findProgram, missingProgram } from './programs.ts'

// The shell has no windows of its own and starts in a third of the time.
const SHELL = 'chromium-headless-shell'
const PROGRAM = findProgram(SHELL) ?? findProgram('chromium')

/** Why a test in a browser cannot run; false when it can. With CI=true it runs, and fails without a browser. */
export const NO_CHROMIUM = PROGRAM === null && missingProgram(SHELL, SHELL)

/** A page of the system's Chromium, with what went wrong in it: errors, warnings of the console, requests to hosts other than this machine. */
export interface BrowserPage {
  page: Page
  complaints: string[]
}

let started: Promise<Browser> | null = null
after(async () => (await started)?.close())

/** A browser that reaches this machine only: one for the file, whose pages share nothing and are closed after the test. */
export async function openBrowser(t: Cleanup): Promise<{ open(settings?: { width?: number; isDark?: boolean }): Promise<BrowserPage> }> {
  started ??= chromium.launch({
    executablePath: PROGRAM ?? SHELL,
    // Chromium's sandbox does not start for root or in a container; it shows only pages of these tests. There is no GPU.
    args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost'],
  })
  const browser = await started
  return {
    open: async ({ width = 1_280, isDark = false } = {}) => {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: isDark ? 'dark' : 'light' })
      onCleanup(t, () => context.close())
      const page = await context.newPage()
      const complaints: string[] = []
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

/** No rule of axe-core is violated by what the page shows now. */
export async function assertAccessible(page: Page, what: string): Promise<void> {
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(axe.source)
  const violations = await page.evaluate(
    `axe.run(document, { iframes: false }).then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes[0].html))`,
  )
  assert.deepEqual(violations, [], what)
}

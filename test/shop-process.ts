import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { type Cleanup, onCleanup } from './cleanup.ts'

const SERVER = fileURLToPath(new URL('../examples/shop/serve.ts', import.meta.url))

/** Serves the example shop at `http://localhost:PORT`, for the store at `api`. Returns its process. */
export async function startShop(t: Cleanup, port: number, api: string, settings: Record<string, string> = {}): Promise<ChildProcess> {
  const env = { ...settings, PATH: process.env.PATH, SHOP_PORT: String(port), API_URL: api }
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', SERVER], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  onCleanup(t, async () => {
    child.kill()
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const ended = once(child, 'exit').then(([status]) => assert.fail(`the shop ended with status ${status}`))
  await Promise.race([once(child.stdout, 'data'), ended])
  ended.catch(() => {})
  return child
}

/** The browser shows the page again as it was left. Chromium under Playwright has no back/forward cache. */
export const comeBack = (page: Page) => page.evaluate(`dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`)

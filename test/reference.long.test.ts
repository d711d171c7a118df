import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import { freePort } from './free-port.ts'
import { assertProblem } from './problem.ts'
import { startStore } from './store.ts'

test('the reference shows every operation and makes a call with a token, by files of the store alone', { skip: NO_CHROMIUM }, async (t) => {
  // The document names the address that the browser has: what is tried goes there.
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const store = await startStore(t, { port, baseUrl: origin })
  const ada = await store.register()
  const { page, complaints } = await (await openBrowser(t)).open()
  await page.goto(`${origin}/docs`)
  await page.locator('.opblock').first().waitFor()
  const { paths } = (await store.call('GET', '/openapi.json')).json
  const operations = Object.values(paths as Record<string, object>).flatMap((item) => Object.keys(item))
  assert.equal(await page.locator('.opblock').count(), operations.length)

  await page.getByRole('button', { name: 'Authorize', exact: true }).click()
  await page.getByLabel('auth-bearer-value').fill(ada.token)
  await page.getByRole('button', { name: 'Apply credentials' }).click()
  await page.getByRole('button', { name: 'Close' }).click()
  await page.locator('#operations-accounts-getAccount').getByRole('button').first().click()
  await page.getByRole('button', { name: 'Try it out' }).click()
  await page.getByRole('button', { name: 'Execute' }).click()
  await page.locator('.live-responses-table .highlight-code', { hasText: ada.email }).waitFor()
  assert.deepEqual(complaints, [])
})

test('the reference has its own files only', async () => {
  const store = await startStore({ after })
  assert.equal((await store.call('GET', '/docs')).status, 200)
  const script = await store.call('GET', '/docs/swagger-ui-bundle.js')
  assert.deepEqual([script.status, script.headers['content-encoding']], [200, 'gzip'])
  for (const file of ['package.json', '..%2Fpackage.json', '%2e%2e%2fpackage.json', 'toString', 'swagger-ui.js']) {
    assertProblem(await store.call('GET', `/docs/${file}`), 404, 'not_found', file)
  }
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import { assertUsable, NARROW, openConsole, signIn } from './console-harness.ts'
import type { TestStore } from './store.ts'
import { runStorefront, serve } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

const HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'

/** Dead letters and runs, written past the store, full of HTML. */
async function fill({ pool }: TestStore): Promise<void> {
  await pool.query(`insert into dead_letters (event_id, reason, position) values (gen_random_uuid() || '.1', $1, '')`, [HOSTILE])
  const findings = [{ place: 'lake', kind: 'missing', count: 2, examples: [HOSTILE, 'b.1'] }]
  await pool.query(
    `insert into audit_runs (id, kind, command, started_at, finished_at, exit_status, result, output)
    values ($1, 'verify', 'storefront verify', now() - interval '3 hours', now() - interval '2 hours', 1, $2, $3)`,
    [randomUUID(), { findings }, `${HOSTILE}\n1 kind of fault`],
  )
}

test('shows the pipeline, and the findings of a run', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address, show } = await openConsole(t, NARROW, { hasSlot: true, prepare: fill })
  await show('Pipeline')
  const stages = page.getByRole('list', { name: 'From an order to mails, webhooks and lake' })
  await stages.getByText('no reader').waitFor()
  // A busy machine may not read every part at first.
  await stages.getByRole('heading', { name: 'Subscriber: lake' }).waitFor()
  assert.deepEqual(await stages.getByRole('heading').allTextContents(), [
    'Replication slot',
    'Change stream',
    'Topic',
    'Subscriber: mails',
    'Subscriber: webhooks',
    'Subscriber: lake',
  ])
  await page.getByText('1 to repair').waitFor()
  const last = page.locator('section', { has: page.getByRole('heading', { name: 'Last verify' }) })
  await last.getByText('faults').waitFor()
  assert.match(await last.innerText(), /2 hours ago/)
  for (const title of ['Messages behind', 'Queued deliveries'])
    await page
      .locator('section.card', { has: page.getByRole('heading', { name: title }) })
      .locator('canvas')
      .waitFor()
  await assertUsable(page, 'pipeline')

  await last.getByRole('link', { name: 'Its findings and output' }).click()
  await page.getByRole('region', { name: 'Findings' }).getByText(HOSTILE).waitFor()
  await page.reload()
  await page.getByRole('region', { name: 'Findings' }).getByText('missing').waitFor()
  await assertUsable(page, 'findings')

  assert.equal(page.url().startsWith(address), true)
  assert.deepEqual(complaints, [])
})

test('verify and replay run in a real store with progress and a result, and the command line shows up, too', {
  skip: NO_CHROMIUM,
  timeout: 240_000,
}, async (t) => {
  const folder = makeTestFolder(t, 'storefront-pipeline-')
  const env = { DATA_DIR: folder, BASE_URL: 'http://localhost:3000', LAKE_FLUSH_SECONDS: '1' }
  const account = { email: 'ops@example.com', password: 'a long enough passphrase' }
  const options = { env, args: [] as string[] }
  const store = await serve(t, options)
  const created = await runStorefront(t, ['admin', 'create', account.email], { env, input: `${account.password}\n` })
  assert.equal(created.status, 0, created.stderr)
  const { page, complaints } = await (await openBrowser(t)).open()
  await page.goto(`${store.url.replace('127.0.0.1', 'localhost')}/console#pipeline`)
  await signIn(page, account)
  await page.getByText('never run').waitFor()
  await page.getByText('Neither verify nor replay was ever run.').waitFor()
  await assertUsable(page, 'never run')

  await page.getByRole('button', { name: 'Run verify' }).click()
  const dialog = page.getByRole('dialog', { name: 'Run verify?' })
  await dialog.getByText('changes nothing').waitFor()
  await dialog.getByRole('button', { name: 'Run verify' }).click()
  await page.getByText('verify is running').waitFor()
  await page.getByText('nothing is missing, doubled or corrupt').first().waitFor({ timeout: 90_000 })
  await page.getByRole('heading', { name: 'storefront verify: passed' }).waitFor()

  await page.getByRole('link', { name: '← Pipeline' }).click()
  await page.getByRole('button', { name: 'Run replay' }).click()
  await page.getByRole('dialog').getByText('every order event that the topic lacks').waitFor()
  await assertUsable(page, 'replay')
  await page.getByRole('dialog').getByRole('button', { name: 'Run replay' }).click()
  await page.getByText('published 0 that it lacked').waitFor({ timeout: 90_000 })

  const nightly = await runStorefront(t, ['verify', '--json'], { env })
  assert.equal(nightly.status, 0, nightly.stderr)
  await page.getByRole('link', { name: '← Pipeline' }).click()
  await page.getByRole('row', { name: /storefront verify --json passed command line/ }).waitFor()
  await assertUsable(page, 'history')
  assert.deepEqual(complaints, [])
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import { onCleanup } from './cleanup.ts'
import { assertUsable, NARROW, openConsole, signIn, withoutRefusals } from './console-harness.ts'
import { eventually } from './eventually.ts'
import type { TestStore } from './store.ts'
import { runStorefront, serve } from './store-process.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

const HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
const ENDPOINT = '01997a61-7a12-7d33-9b40-0c1d2e3f4a5b'

/** Endpoints with deliveries, dead letters and runs, written past the store, full of HTML. */
async function fill({ pool }: TestStore): Promise<void> {
  await pool.query(
    `insert into webhook_endpoints (id, url, sealed_secret, failing_since, disabled_at, disabled_reason)
    values ($1, 'https://erp.example/hooks?token=very-secret', '', null, null, null),
      ($2, 'https://other.example/', '', now(), now(), $3)`,
    [ENDPOINT, randomUUID(), HOSTILE],
  )
  await pool.query(
    `with event as (
      insert into webhook_events (event_id, type, body)
      select gen_random_uuid() || '.' || number, 'order.placed', '{}' from generate_series(1, 25) as number
      returning event_id, split_part(event_id, '.', 2)::int as number
    )
    insert into webhook_deliveries (endpoint_id, event_id, status, attempts, queued_at, last_error)
    select $1, event_id, case when number <= 3 then 'failed' else 'delivered' end, 1, now() - number * interval '1 minute',
      case when number <= 3 then $2 end
    from event`,
    [ENDPOINT, HOSTILE],
  )
  await pool.query(`insert into dead_letters (event_id, reason, position) values (gen_random_uuid() || '.1', $1, '')`, [HOSTILE])
  const findings = [{ place: 'lake', kind: 'missing', count: 2, examples: [HOSTILE, 'b.1'] }]
  await pool.query(
    `insert into audit_runs (id, kind, command, started_at, finished_at, exit_status, result, output)
    values ($1, 'verify', 'storefront verify', now() - interval '3 hours', now() - interval '2 hours', 1, $2, $3)`,
    [randomUUID(), { findings }, `${HOSTILE}\n1 kind of fault`],
  )
}

test('shows the pipeline, and delivers webhooks again', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, address, show } = await openConsole(t, NARROW, { prepare: fill })
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
  assert.match(await last.innerText(), /2 h ago/)
  await assertUsable(page, 'pipeline')

  await last.getByRole('link', { name: 'Its findings and output' }).click()
  await page.getByRole('region', { name: 'Findings' }).getByText(HOSTILE).waitFor()
  await page.reload()
  await page.getByRole('region', { name: 'Findings' }).getByText('missing').waitFor()
  await assertUsable(page, 'findings')

  await page.getByRole('link', { name: 'Deliveries' }).first().click()
  await page.getByRole('heading', { name: 'Deliveries to https://erp.example/hooks?…' }).waitFor()
  assert.equal((await page.content()).includes('very-secret'), false)
  await page.getByRole('link', { name: 'Older deliveries' }).click()
  const deliveries = page.getByRole('region', { name: 'Deliveries', exact: true })
  await eventually(async () => (await deliveries.locator('tbody tr').count()) === 5, { what: '5 deliveries' })
  await page.goBack()
  await page.getByRole('combobox', { name: 'Status' }).selectOption('failed')
  await page.waitForURL(/deliveries=failed/)
  await eventually(async () => (await deliveries.locator('tbody tr').count()) === 3, { what: '3 deliveries' })
  await assertUsable(page, 'deliveries')

  const queued = async () => {
    const { rows } = await store.pool.query(`select count(*)::int as n from webhook_deliveries where status = 'queued'`)
    return rows[0].n
  }
  // The keyboard works; Escape changes nothing.
  await deliveries
    .getByRole('button', { name: /^Deliver again: / })
    .first()
    .focus()
  await page.keyboard.press('Enter')
  await page.getByRole('dialog', { name: 'Deliver again?' }).waitFor()
  await assertUsable(page, 'confirmation')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.equal(await queued(), 0)
  await deliveries
    .getByRole('button', { name: /^Deliver again: / })
    .first()
    .click()
  await page.getByRole('dialog').getByRole('button', { name: 'Deliver again' }).click()
  await page.getByText('1 event is delivered again.').waitFor()
  assert.equal(await queued(), 1)
  await page.getByRole('button', { name: 'Deliver all failed again' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Deliver again' }).click()
  await page.getByText('2 events are delivered again.').waitFor()
  assert.equal(await queued(), 3)
  await page.getByText('No deliveries.').waitFor()
  assert.equal(page.url().startsWith(address), true)
  assert.deepEqual(complaints, [])
})

test('verify and replay run in a real store with progress and a result, and the command line shows up, too', {
  skip: NO_CHROMIUM,
  timeout: 240_000,
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'storefront-pipeline-'))
  onCleanup(t, () => rm(folder, { recursive: true, force: true }))
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

  await page.getByRole('button', { name: 'Run replay' }).click()
  await page.getByRole('dialog').getByText('every order event that the topic lacks').waitFor()
  await assertUsable(page, 'replay')
  await page.getByRole('dialog').getByRole('button', { name: 'Run replay' }).click()
  await page.getByText('published 0 that it lacked').waitFor({ timeout: 90_000 })

  const nightly = await runStorefront(t, ['verify', '--json'], { env })
  assert.equal(nightly.status, 0, nightly.stderr)
  await page.getByRole('row', { name: /storefront verify --json passed command line/ }).waitFor()
  await assertUsable(page, 'history')
  assert.deepEqual(complaints, [])
})

test('an endpoint is added, tested, changed, disabled and removed', { skip: NO_CHROMIUM }, async (t) => {
  const receiver = await startWebhookReceiver(t)
  const { store, page, complaints, show } = await openConsole(t, NARROW, { roles: ['api', 'webhook'], isPrivateWebhookAllowed: true })
  await show('Pipeline')
  await page.getByText('No endpoint gets webhooks.').waitFor()
  await page.getByRole('button', { name: 'Add an endpoint' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('URL').fill('https://shop.example/')
  await dialog.getByRole('checkbox', { name: 'An order was shipped' }).check()
  await assertUsable(page, 'a new endpoint')
  await dialog.getByLabel('URL').fill('https://user:word@shop.example/')
  await dialog.getByRole('button', { name: 'Add', exact: true }).click()
  await dialog.getByText('user name').waitFor()
  await dialog.getByLabel('URL').fill(receiver.url)
  await dialog.getByRole('button', { name: 'Add', exact: true }).click()
  const secret = page.getByText(/^whsec_/)
  await secret.waitFor()
  await assertUsable(page, 'the secret')
  await page.getByRole('button', { name: 'I have stored it' }).click()
  await secret.waitFor({ state: 'detached' })

  await page.getByRole('link', { name: 'Deliveries' }).click()
  await page.getByRole('button', { name: 'Send a test event' }).click()
  const deliveries = page.getByRole('region', { name: 'Deliveries', exact: true })
  await deliveries.getByText('storefront.webhook.test').waitFor()
  await eventually(async () => receiver.requests.length === 1, { what: 'the test event' })
  await assertUsable(page, 'an endpoint')

  await page.getByRole('button', { name: 'Change', exact: true }).click()
  assert.equal(await dialog.getByRole('checkbox', { name: 'An order was shipped' }).isChecked(), true)
  await dialog.getByRole('radio', { name: 'Every event of orders' }).check()
  await dialog.getByRole('button', { name: 'Change', exact: true }).click()
  await page.getByRole('region', { name: 'Endpoints' }).getByText('all events of orders').waitFor()
  await page.getByRole('button', { name: 'Rotate the secret' }).click()
  await dialog.getByRole('button', { name: 'Rotate', exact: true }).click()
  await secret.waitFor()
  await page.getByRole('button', { name: 'Disable' }).click()
  await dialog.getByRole('button', { name: 'Disable' }).click()
  await page.getByRole('button', { name: 'Enable' }).click()
  await page.getByRole('button', { name: 'Disable' }).waitFor()
  await page.getByRole('button', { name: 'Remove' }).click()
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await page.getByText('No endpoint gets webhooks.').waitFor()
  const { rows } = await store.pool.query('select count(*)::int as n from webhook_endpoints')
  assert.deepEqual([rows, withoutRefusals(complaints)], [[{ n: 0 }], []])
})

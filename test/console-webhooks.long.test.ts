import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole, withoutRefusals } from './console-harness.ts'
import { eventually } from './eventually.ts'
import type { TestStore } from './store.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

const HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
const ENDPOINT = '01997a61-7a12-7d33-9b40-0c1d2e3f4a5b'

/** Endpoints with deliveries, written past the store, full of HTML. */
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
      select gen_random_uuid() || '.' || number, 'order.placed', '{}' from generate_series(1, 55) as number
      returning event_id, split_part(event_id, '.', 2)::int as number
    )
    insert into webhook_deliveries (endpoint_id, event_id, status, attempts, queued_at, last_error)
    select $1, event_id, case when number <= 3 then 'failed' else 'delivered' end, 1, now() - number * interval '1 minute',
      case when number <= 3 then $2 end
    from event`,
    [ENDPOINT, HOSTILE],
  )
}

test('shows the endpoints of webhooks, and delivers again', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, address } = await openConsole(t, NARROW, { prepare: fill })
  await page.goto(`${address}#settings?section=webhooks`)
  await page.getByText(HOSTILE).waitFor()
  await assertUsable(page, 'endpoints')
  await page.getByRole('link', { name: 'https://erp.example/hooks' }).click()
  await page.getByRole('heading', { level: 2, name: 'https://erp.example/hooks?…' }).waitFor()
  assert.equal((await page.content()).includes('very-secret'), false)
  await page.getByRole('link', { name: 'Next page' }).click()
  const deliveries = page.getByRole('region', { name: 'Deliveries', exact: true })
  await eventually(async () => (await deliveries.locator('tbody tr').count()) === 5, { what: '5 deliveries' })
  await page.goBack()
  await page.getByRole('link', { name: 'Failed', exact: true }).click()
  await page.waitForURL(/status=failed/)
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
  assert.deepEqual(complaints, [])
})

test('an endpoint is added, tested, changed, disabled and removed', { skip: NO_CHROMIUM }, async (t) => {
  const receiver = await startWebhookReceiver(t)
  const { store, page, complaints } = await openConsole(t, NARROW, { roles: ['api', 'webhook'], isPrivateWebhookAllowed: true })
  await page.getByRole('link', { name: 'Settings' }).click()
  await page.getByRole('link', { name: 'Webhooks' }).click()
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

  await page.getByRole('link', { name: receiver.url }).click()
  await page.getByRole('button', { name: 'Send a test event' }).click()
  const deliveries = page.getByRole('region', { name: 'Deliveries', exact: true })
  await deliveries.getByText('storefront.webhook.test').waitFor()
  await eventually(async () => receiver.requests.length === 1, { what: 'the test event' })
  await assertUsable(page, 'an endpoint')

  await page.getByRole('button', { name: 'Change', exact: true }).click()
  assert.equal(await dialog.getByRole('checkbox', { name: 'An order was shipped' }).isChecked(), true)
  await dialog.getByRole('radio', { name: 'Every event of orders' }).check()
  await dialog.getByRole('button', { name: 'Change', exact: true }).click()
  await page.getByText('all events of orders').waitFor()
  const choose = async (action: string) => {
    await page.getByRole('main').getByText('More', { exact: true }).click()
    await page.getByRole('button', { name: action, exact: true }).click()
  }
  await choose('Rotate the secret')
  await dialog.getByRole('button', { name: 'Rotate', exact: true }).click()
  await secret.waitFor()
  await choose('Disable')
  await dialog.getByRole('button', { name: 'Disable' }).click()
  await page.getByRole('button', { name: 'Enable' }).click()
  await page.getByRole('button', { name: 'Send a test event' }).waitFor()
  await choose('Remove')
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await page.getByText('No endpoint gets webhooks.').waitFor()
  const { rows } = await store.pool.query('select count(*)::int as n from webhook_endpoints')
  assert.deepEqual([rows, withoutRefusals(complaints)], [[{ n: 0 }], []])
})

test('a change of an endpoint does not replace one that another operator made while the dialog was open', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t, {}, { prepare: fill })
  const [placed, shipped] = ['storefront.order.created', 'storefront.order.shipped']
  const types = async () =>
    (await store.pool.query('select event_types from webhook_endpoints where id = $1', [ENDPOINT])).rows[0].event_types as string[] | null
  await page.goto(`${address}#settings?section=webhooks&webhook=${ENDPOINT}`)
  const [main, dialog] = [page.getByRole('main'), page.getByRole('dialog')]
  await main.getByRole('button', { name: 'Change', exact: true }).click()
  await dialog.getByRole('checkbox', { name: 'An order was shipped' }).check()
  const body = { event_types: [placed] }
  const { status, text } = await store.call('PATCH', `/admin/webhooks/${ENDPOINT}`, { token: operator.token, body })
  assert.equal(status, 200, text)
  await dialog.getByRole('button', { name: 'Change', exact: true }).click()
  await dialog.getByText('The endpoint was changed meanwhile. Close this and look at it again.').waitFor()
  assert.deepEqual(await types(), [placed])

  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await main.getByText('An order was placed', { exact: true }).waitFor()
  await main.getByRole('button', { name: 'Change', exact: true }).click()
  assert.equal(await dialog.getByRole('checkbox', { name: 'An order was placed' }).isChecked(), true)
  await dialog.getByRole('checkbox', { name: 'An order was shipped' }).check()
  await dialog.getByRole('button', { name: 'Change', exact: true }).click()
  await page.getByText('The endpoint is changed.').waitFor()
  assert.deepEqual(await types(), [placed, shipped])
  assert.deepEqual(complaints, [])
})

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Value } from 'typebox/value'
import { eventually } from '../../test/eventually.ts'
import { queryFolder } from '../../test/lake-harness.ts'
import { startAuditedStore } from '../../test/pipeline-audit.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { toMailContent } from '../mail/render-mail.ts'
import { type OrderEvent, toEarlierEvents } from './events.ts'

const EUR = (amount: number) => ({ amount, currency: 'EUR' })
const HOSTILE = '<script>x</script> & "Express"'

test('events, mails and the lake have adjustments and payments, and replay makes them again', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [ada, { token }, lamp] = [
    await store.register(),
    await registerOperator(store),
    await store.addProduct({ stock: 9, amount: 1_000 }),
  ]
  const place = async () => {
    const body = { items: [{ product_id: lamp.id, quantity: 2 }] }
    return (await store.call('POST', '/orders', { token: ada.token, body })).json.id as string
  }
  const [id, plain] = [await place(), await place()]
  const call = async (method: string, path: string, body?: object) => {
    const { status, text, json } = await store.call(method, `/admin/orders/${id}/${path}`, { token, ...(body && { body }) })
    assert.equal(status, 200, text)
    return json
  }
  await call('POST', 'adjustments', { kind: 'shipping', label: HOSTILE, amount: EUR(490) })
  await call('POST', 'adjustments', { kind: 'fee', label: 'Wrapping', amount: EUR(200) })
  await call('DELETE', 'adjustments/3')
  await call('PUT', 'payment', { provider: 'stripe', reference: 'pi_1', state: 'paid' })
  await call('POST', 'transitions', { to: 'confirmed' })
  await call('POST', 'adjustments', { kind: 'discount', label: 'Sorry', amount: EUR(-100), reference: 'case-7' })
  const order = await call('PUT', 'payment', { provider: 'stripe', reference: 'pi_1', state: 'partially_refunded' })
  assert.deepEqual([order.version, order.total], [8, EUR(2_390)])
  await store.call('POST', `/admin/orders/${plain}/transitions`, { token, body: { to: 'confirmed' } })

  const listEvents = async () => {
    const { rows } = await store.pool.query<{ event: OrderEvent }>(
      `select event from topic_messages order by event ->> 'subject', (event ->> 'sequence')`,
    )
    return rows.map(({ event }) => event)
  }
  await eventually(async () => (await store.verify()).lake.events === 10, { what: 'every event in the lake' })
  await eventually(async () => (await store.verify()).mails.sent === 4, { what: 'the mails' })
  const events = await listEvents()
  const own = events.filter(({ subject }) => subject === id)
  assert.deepEqual(
    own.map(({ type, data: { order } }) => [type.split('.').at(-1), order.total.amount, order.adjustments?.length, order.payment?.state]),
    [
      ['created', 2_000, undefined, undefined],
      ['updated', 2_490, 1, undefined],
      ['updated', 2_690, 2, undefined],
      ['updated', 2_490, 1, undefined],
      ['updated', 2_490, 1, 'paid'],
      ['confirmed', 2_490, 1, 'paid'],
      ['updated', 2_390, 2, 'paid'],
      ['updated', 2_390, 2, 'partially_refunded'],
    ],
  )
  for (const event of own) {
    const name = event.type.replace('storefront.', '').replace('.', '-')
    const schema = JSON.parse(readFileSync(fileURLToPath(new URL(`../../docs/schemas/${name}.schema.json`, import.meta.url)), 'utf8'))
    assert.deepEqual([...Value.Errors(schema, event)], [])
  }
  const last = own.at(-1) as OrderEvent
  const withoutTrace = (all: readonly OrderEvent[]) => all.map(({ traceparent: _, ...rest }) => rest)
  assert.deepEqual(toEarlierEvents(last), withoutTrace(own.slice(0, -1)), 'each event of the order follows from the newest')
  for (const event of events.filter(({ subject }) => subject === plain)) {
    assert.doesNotMatch(JSON.stringify(event), /adjust|payment|parcels|original_total|attributes/)
  }

  const confirmed = own[5] as OrderEvent
  assert.deepEqual(toMailContent(confirmed).order.adjustments, [{ label: HOSTILE, amount: 490 }])
  const { rows } = await store.pool.query('select content from email_deliveries where event_id = $1', [`${id}.6`])
  assert.equal(rows.length, 1)
  const mail = readFileSync(`${store.config.dataDir}/mail/${id}.6.eml`, 'utf8').replaceAll('=\r\n', '').replaceAll('=3D', '=')
  assert.ok(mail.includes(`${HOSTILE}: `), 'as text')
  assert.ok(
    mail.includes('&lt;script&gt;x&lt;/script&gt; &amp; &quot;Express&quot;') || mail.includes('&lt;script&gt;x&lt;&#x2F;script&gt;'),
    'as HTML',
  )
  assert.doesNotMatch(mail, /Wrapping/)

  const lake = await queryFolder(
    store.lake,
    `select version, total_amount, original_amount, shipping_amount, discount_amount, tax_amount, fee_amount, payment_provider, payment_state, change_type
    from order_events where order_id = '${id}' order by version`,
  )
  assert.deepEqual(lake.rows.map(String), [
    '1,2000,2000,,,,,,,',
    '2,2490,2000,490,,,,,,adjusted',
    '3,2690,2000,490,,,200,,,adjusted',
    '4,2490,2000,490,,,,,,adjustment_voided',
    '5,2490,2000,490,,,,stripe,paid,payment',
    '6,2490,2000,490,,,,stripe,paid,',
    '7,2390,2000,490,-100,,,stripe,paid,adjusted',
    '8,2390,2000,490,-100,,,stripe,partially_refunded,payment',
  ])
  const current = await queryFolder(store.lake, `select shipping_amount, payment_state from orders order by payment_state nulls last`)
  assert.deepEqual(current.rows.map(String), ['490,partially_refunded', ','])

  assert.deepEqual((await store.verify()).findings, [])
  await stop()
  assert.equal((await store.replay()).published, 0, 'nothing is missing')
  await store.pool.query('delete from topic_messages where id = any($1)', [[2, 4, 5, 8].map((version) => `${id}.${version}`)])
  assert.equal((await store.replay()).published, 4)
  assert.deepEqual(withoutTrace(await listEvents()), withoutTrace(events))
})

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Value } from 'typebox/value'
import { eventually } from '../../test/eventually.ts'
import { queryFolder } from '../../test/lake-harness.ts'
import { startAuditedStore } from '../../test/pipeline-audit.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { eraseCopies } from '../app/housekeeping.ts'
import { eraseDueAddresses } from './erase-addresses.ts'
import { type OrderEvent, toEarlierEvents } from './events.ts'

const OLD = { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' }
const NEW = { name: 'Ada Lovelace', line1: '3 rue de la Paix', city: 'Paris', postal_code: '75002', country: 'FR' }
const PERSONAL = /Lovelace|James|rue de la Paix|SW1Y|75002|new-ada|newest-ada|GB123456789/

test('an amendment makes an event, mails to the new and the former address, and a lake row; replay makes every version again, even after an erasure', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [ada, { token }, lamp] = [await store.register(), await registerOperator(store), await store.addProduct({ stock: 9 })]
  const { json: placed } = await store.call('POST', '/orders', {
    token: ada.token,
    body: { items: [{ product_id: lamp.id, quantity: 2 }], shipping_address: OLD },
  })
  const id = placed.id as string
  const post = async (path: string, body: object) => {
    const { status, text, json } = await store.call('POST', `/admin/orders/${id}/${path}`, { token, body })
    assert.equal(status, 200, text)
    // The sender uses the address that is current when the mail is sent.
    await eventually(
      async () =>
        (
          await store.pool.query(`select from email_deliveries where event_id = $1 and status = 'sent'`, [
            `${id}.${(json.order ?? json).version}`,
          ])
        ).rowCount === 1,
      { what: 'the mail' },
    )
    return json
  }
  const tracking = { carrier: 'UPS', number: '1Z' }
  await post('amendments', { shipping_address: NEW, billing_address: OLD, vat_number: 'GB123456789' })
  await post('transitions', { to: 'confirmed' })
  await post('amendments', { shipping_address: OLD, billing_address: null, email: 'new-ada@example.com' })
  await post('transitions', { to: 'shipped', tracking: { carrier: 'DHL', number: '1' } })
  await post('amendments', { email: 'newest-ada@example.com', parcel: { version: 5, tracking } })
  const listEvents = async () => {
    const { rows } = await store.pool.query<{ event: OrderEvent }>(`select event from topic_messages order by event ->> 'sequence'`)
    return rows.map(({ event: { traceparent: _, ...event } }) => event)
  }
  const untilDone = () =>
    eventually(
      async () => {
        const { topic, lake, mails } = await store.verify()
        return topic.events === 6 && lake.events === 6 && mails.sent === 6
      },
      { what: 'every event everywhere' },
    )
  await untilDone()
  const events = await listEvents()
  assert.deepEqual(
    events.map(({ type, data: { order } }) => [
      type.split('.').at(-1),
      order.shipping_address?.country,
      order.billing_address?.country,
      order.vat_number,
      order.parcels?.[0]?.tracking?.carrier,
    ]),
    [
      ['created', 'GB', undefined, undefined, undefined],
      ['amended', 'FR', 'GB', 'GB123456789', undefined],
      ['confirmed', 'FR', 'GB', 'GB123456789', undefined],
      ['amended', 'GB', undefined, 'GB123456789', undefined],
      ['shipped', 'GB', undefined, 'GB123456789', 'DHL'],
      ['amended', 'GB', undefined, 'GB123456789', 'UPS'],
    ],
  )
  assert.doesNotMatch(JSON.stringify(events), /new-ada|newest-ada|former/, 'no event has an e-mail address or what was replaced')
  const schema = JSON.parse(readFileSync(fileURLToPath(new URL('../../docs/schemas/order-amended.schema.json', import.meta.url)), 'utf8'))
  for (const event of [events[1], events[5]]) assert.deepEqual([...Value.Errors(schema, event)], [])
  assert.deepEqual(
    toEarlierEvents(events[5] as OrderEvent).map(({ id: each, data: { order } }) => [each, order.shipping_address?.country]),
    [
      [`${id}.1`, undefined],
      [`${id}.2`, undefined],
      [`${id}.3`, undefined],
      [`${id}.4`, 'GB'],
      [`${id}.5`, 'GB'],
    ],
    'a broker that lost earlier events gets none with an address that was not theirs',
  )

  const folder = join(store.config.dataDir, 'mail')
  const mails = readdirSync(folder).filter((name) => name.startsWith(id))
  const recipients = mails
    .sort()
    .map((name) => [name.slice(id.length + 1, -4), /^To: .*?([\w.+-]+@[\w.-]+)/m.exec(readFileSync(join(folder, name), 'utf8'))?.[1]])
  assert.deepEqual(recipients, [
    ['1', ada.email],
    ['2', ada.email],
    ['3', ada.email],
    ['4', 'new-ada@example.com'],
    ['4.former', ada.email],
    ['5', 'new-ada@example.com'],
    ['6', 'newest-ada@example.com'],
    ['6.former', 'new-ada@example.com'],
  ])
  for (const name of mails.filter((each) => each.includes('former')))
    assert.doesNotMatch(readFileSync(join(folder, name), 'utf8').replace(/^To:.*$/m, ''), /new-ada|newest-ada|Lovelace|James/)
  assert.match(readFileSync(join(folder, `${id}.6.eml`), 'utf8'), /1Z/)
  const listed = await store.call('GET', `/admin/mails?order=${id}`, { token })
  assert.equal(listed.json.data.length, 8)
  const notice = await store.call('GET', `/admin/mails/${id}.6.former`, { token })
  assert.deepEqual([notice.json.to, notice.json.kind], ['new-ada@example.com', 'readdressed'], notice.text)
  assert.match(notice.json.rendered.text, /another e-mail address/)
  const detail = await store.call('GET', `/admin/orders/${id}`, { token })
  assert.deepEqual(
    detail.json.timeline.map(({ mail }: { mail: { status: string } }) => mail.status),
    Array(6).fill('sent'),
  )

  const inLake = async () =>
    (
      await queryFolder(
        store.lake,
        `select version, change_type, shipping_country, billing_country, event_type from order_events order by version`,
      )
    ).rows.map(String)
  const rows = [
    '1,,GB,,storefront.order.created',
    '2,amended,FR,GB,storefront.order.amended',
    '3,,FR,GB,storefront.order.confirmed',
    '4,amended,GB,,storefront.order.amended',
    '5,,GB,,storefront.order.shipped',
    '6,amended,GB,,storefront.order.amended',
  ]
  assert.deepEqual(await inLake(), rows)
  assert.deepEqual((await store.verify()).findings, [])

  await stop()
  await store.pool.query('delete from topic_messages where id = any($1)', [[1, 3, 4].map((version) => `${id}.${version}`)])
  assert.equal((await store.replay()).published, 3)
  const byVersion = async () => (await listEvents()).sort((a, b) => a.sequence.localeCompare(b.sequence))
  assert.deepEqual(await byVersion(), events, 'each version is made again with the address of its time')

  const findAltered = async () => (await store.verify()).findings.map(({ place, kind, examples }) => [place, kind, examples])
  await store.pool.query(`update orders set shipping_address = shipping_address || '{"line1": "by hand"}' where id = $1`, [id])
  assert.deepEqual(await findAltered(), [['topic', 'altered', [4, 5, 6].map((version) => `${id}.${version}`)]])
  await store.pool.query(
    `update orders set shipping_address = $2, former_values = jsonb_set(former_values, '{1,shipping_address,line1}', '"by hand"') where id = $1`,
    [id, OLD],
  )
  assert.deepEqual(await findAltered(), [['topic', 'altered', [`${id}.1`]]])
  await store.pool.query(`update orders set former_values = jsonb_set(former_values, '{1,shipping_address,line1}', $2) where id = $1`, [
    id,
    JSON.stringify(OLD.line1),
  ])

  assert.equal((await store.call('DELETE', '/me', { token: ada.token })).status, 204)
  await eraseDueAddresses(store.pool, { eraseCopies, retainDays: 30 }, new Date(Date.now() + 40 * 86_400_000))
  const { rows: kept } = await store.pool.query(
    `select orders::text as text from orders union all select event::text from topic_messages union all select content::text from email_deliveries
    union all select before::text || after::text from activities`,
  )
  for (const { text } of kept) assert.doesNotMatch(text ?? '', PERSONAL)
  assert.deepEqual((await store.verify()).findings, [])
  await store.startPipeline()
  await store.pool.query('delete from topic_messages where id = $1', [`${id}.2`])
  assert.equal((await store.replay()).published, 1)
  assert.deepEqual(await inLake(), rows, 'the lake has the countries')
})

test('amended lines are in event, mail and lake, and replay makes every version again with the lines that it had', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [ada, { token }] = [await store.register(), await registerOperator(store)]
  const [lamp, mug] = [await store.addProduct({ stock: 9, amount: 1_000 }), await store.addProduct({ stock: 9, amount: 500, name: 'Mug' })]
  const { json: placed } = await store.call('POST', '/orders', {
    token: ada.token,
    body: { items: [{ product_id: lamp.id, quantity: 2 }], shipping_address: OLD },
  })
  const id = placed.id as string
  const states = new Map([['1', placed]])
  const post = async (path: string, body: object) => {
    const { status, text, json } = await store.call('POST', `/admin/orders/${id}/${path}`, { token, body })
    assert.equal(status, 200, text)
    const order = json.order ?? json
    states.set(String(order.version), order)
  }
  await post('amendments', {
    lines: [
      { product_id: lamp.id, quantity: 1 },
      { product_id: mug.id, quantity: 3 },
    ],
  })
  await post('adjustments', { kind: 'discount', label: 'Sorry', amount: { amount: -100, currency: 'EUR' } })
  await post('transitions', { to: 'confirmed' })
  await post('amendments', { lines: [{ product_id: lamp.id, quantity: 2, price: 'then' }], shipping_address: NEW })
  await post('shipments', { lines: [{ product_id: mug.id, quantity: 2 }] })
  await post('cancellations', {})
  await store.untilDelivered(1)

  const listEvents = async () => {
    const { rows } = await store.pool.query<{ event: OrderEvent }>(`select event from topic_messages order by event ->> 'sequence'`)
    return rows.map(({ event: { traceparent: _, ...event } }) => event)
  }
  const events = await listEvents()
  assert.equal(events.length, 7)
  const schema = JSON.parse(readFileSync(fileURLToPath(new URL('../../docs/schemas/order-amended.schema.json', import.meta.url)), 'utf8'))
  for (const event of [events[1], events[4]]) assert.deepEqual([...Value.Errors(schema, event)], [])
  for (const {
    data: { order },
  } of events) {
    const answer = states.get(String(order.version))
    assert.deepEqual([order.items, order.total], [answer.items, answer.total], `version ${order.version}`)
  }
  const unplaced = toEarlierEvents(events[6] as OrderEvent).map(({ data: { order } }) => [order.items, order.total, order.status_history])
  assert.deepEqual(
    unplaced,
    events.slice(0, -1).map(({ data: { order } }) => [order.items, order.total, order.status_history]),
    'a broker that lost earlier events gets their lines',
  )

  const mail = readFileSync(join(store.config.dataDir, 'mail', `${id}.2.eml`), 'utf8').replaceAll(/=\r?\n/g, '')
  assert.match(mail, /1 (?:×|=C3=97) /)
  assert.match(mail, /3 (?:×|=C3=97) Mug/)
  assert.match(mail, /25[.,]00/)

  const { rows } = await queryFolder(
    store.lake,
    `select version, total_amount, original_amount, item_count, list_sum(list_transform(items, lambda i: i.unit_price_amount * (i.quantity - i.cancelled)))
    from order_events order by version`,
  )
  assert.deepEqual(rows.map(String), [
    '1,2000,2000,1,2000',
    '2,2500,2000,2,2500',
    '3,2400,2000,2,2500',
    '4,2400,2000,2,2500',
    '5,3400,2000,3,3500',
    '6,3400,2000,3,3500',
    '7,900,2000,3,1000',
  ])
  assert.deepEqual(await store.readStock(lamp, mug), [9, 7])
  assert.deepEqual((await store.verify()).findings, [])

  await stop()
  await store.pool.query('delete from topic_messages where id = any($1)', [[1, 2, 4, 5].map((version) => `${id}.${version}`)])
  assert.equal((await store.replay()).published, 4)
  assert.deepEqual(
    (await listEvents()).sort((a, b) => a.sequence.localeCompare(b.sequence)),
    events,
  )
  await store.pool.query(
    `update orders set status_history = jsonb_set(status_history, '{1,change,added,0,name}', '"by hand"') where id = $1`,
    [id],
  )
  const findings = (await store.verify()).findings.map(({ place, kind, examples }) => [place, kind, examples])
  assert.deepEqual(findings[0], ['topic', 'altered', [2, 3, 4, 5, 6, 7].map((version) => `${id}.${version}`)], JSON.stringify(findings))
})

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { simpleParser } from 'mailparser'
import { Value } from 'typebox/value'
import { createGuest } from '../../test/guests.ts'
import { queryFolder } from '../../test/lake-harness.ts'
import { startAuditedStore } from '../../test/pipeline-audit.ts'
import { registerOperator } from '../../test/register-operator.ts'
import type { OrderEvent } from './events.ts'
import { toEarlierEvents } from './events.ts'

const ANNA = { engraving: 'Anna <b>', font: 'serif' }
const BERT = { engraving: 'Bert' }

test('events, and mails to a proven address, have the attributes of each line, the lake has none, and an erasure removes them everywhere', async (t) => {
  const store = await startAuditedStore(t, { retainOrderAddressDays: 100 })
  const stop = await store.startPipeline()
  const [ada, { token }, ring] = [await store.register(), await registerOperator(store), await store.addProduct({ name: 'Ring' })]
  await store.pool.query('update users set email_verified_at = now() where id = $1', [ada.id])
  const guest = await createGuest(store, 'guest@example.com')
  const items = [ANNA, BERT].map((attributes) => ({ product_id: ring.id, quantity: 1, attributes }))
  const place = async (by: string, lines: object[] = items): Promise<string> =>
    (await store.call('POST', '/orders', { token: by, body: { items: lines }, headers: { 'idempotency-key': 'one' } })).json.id
  const [id, ofGuest] = [await place(ada.token), await place(guest.token)]
  const post = async (path: string, body: object) => {
    const { status, text } = await store.call('POST', `/admin/orders/${id}/${path}`, { token, body })
    assert.equal(status, 200, text)
  }
  await post('transitions', { to: 'confirmed' })
  await post('shipments', { lines: [{ product_id: ring.id, quantity: 1, line: 1 }] })
  await post('shipments', {})
  await store.untilDelivered()

  const listEvents = async () =>
    (
      await store.pool.query<{ event: OrderEvent }>(
        `select event from topic_messages where event ->> 'subject' = $1 order by event ->> 'sequence'`,
        [id],
      )
    ).rows.map(({ event: { traceparent: _, ...event } }) => event)
  const events = await listEvents()
  const attributesOf = ({ data: { order } }: OrderEvent) => order.items.map(({ attributes }) => attributes)
  assert.deepEqual(events.map(attributesOf), Array(4).fill([ANNA, BERT]))
  const schema = (type: string) =>
    JSON.parse(readFileSync(fileURLToPath(new URL(`../../docs/schemas/${type}.schema.json`, import.meta.url)), 'utf8'))
  for (const [index, type] of [
    [0, 'order-created'],
    [2, 'order-updated'],
  ] as const) {
    assert.deepEqual([...Value.Errors(schema(type), events[index])], [])
    const older = structuredClone(events[index]) as OrderEvent
    for (const item of older.data.order.items) delete item.attributes
    assert.deepEqual([...Value.Errors(schema(type), older)], [], 'an event of a release without attributes')
  }
  assert.deepEqual(toEarlierEvents(events[3] as OrderEvent), events.slice(0, 3))

  const folder = join(store.config.dataDir, 'mail')
  const mailOf = async (of: string, version: number) => {
    const name = readdirSync(folder).find((each) => each === `${of}.${version}.eml`) ?? ''
    const { text = '', html } = await simpleParser(readFileSync(join(folder, name)))
    return { text, html: String(html) }
  }
  const [created, parcel, toGuest] = [await mailOf(id, 1), await mailOf(id, 3), await mailOf(ofGuest, 1)]
  assert.match(created.text, /1 × Ring: .*\n {2}engraving: Anna <b>\n {2}font: serif\n1 × Ring: .*\n {2}engraving: Bert\n/)
  assert.match(created.html, /engraving: Anna &lt;b&gt;<\/span>/)
  assert.match(parcel.text, /1 × Ring\n {2}engraving: Bert\n/)
  assert.match(toGuest.text, /1 × Ring: /)
  assert.doesNotMatch(toGuest.text + toGuest.html, /engraving|Anna|Bert/, 'anybody can order for an address that is not proven')
  const kept = await store.pool.query('select content from email_deliveries where content is not null')
  assert.doesNotMatch(JSON.stringify(kept.rows), /Anna|Bert/)
  const shown = await store.call('GET', `/admin/mails/${id}.1`, { token })
  assert.match(shown.json.rendered.text, /engraving: Anna/)

  const inLake = async () => JSON.stringify((await queryFolder(store.lake, 'select order_events::varchar from order_events')).rows)
  assert.match(await inLake(), /Ring/)
  assert.doesNotMatch(await inLake(), /Anna|Bert|engraving/)
  assert.deepEqual((await store.verify()).findings, [])

  await post('transitions', { to: 'delivered' })
  await store.untilDelivered()
  await stop()
  await store.pool.query(`insert into webhook_events (event_id, type, body) select id, event ->> 'type', event from topic_messages`)
  await store.pool.query(`update orders set updated_at = updated_at - interval '200 days' where id = $1`, [id])
  const changed = (await store.pool.query('select updated_at from orders where id = $1', [id])).rows[0]
  assert.equal((await store.call('DELETE', '/me', { token: ada.token })).status, 204)
  const { rows } = await store.pool.query(
    `select (select item_attributes from orders where id = $1) as row, (select count(*) from webhook_events where event_id like $1 || '%') as webhooks,
      (select count(*) from idempotency_keys where user_id = $2) as keys`,
    [id, ada.id],
  )
  assert.deepEqual(rows, [{ row: null, webhooks: 0, keys: 0 }])
  assert.deepEqual((await listEvents()).map(attributesOf), Array(5).fill([undefined, undefined]))
  await store.pool.query(`update orders set updated_at = $2::timestamptz + interval '200 days' where id = $1`, [id, changed.updated_at])
  assert.deepEqual((await store.verify()).findings, [])
  await store.pool.query('delete from topic_messages where id = $1', [`${id}.2`])
  assert.equal((await store.replay()).published, 1)
  assert.deepEqual((await store.verify()).findings, [])
  assert.match(JSON.stringify((await store.call('GET', `/orders/${ofGuest}`, { token: guest.token })).json), /Anna.*Bert/)
})

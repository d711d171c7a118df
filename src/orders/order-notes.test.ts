import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { queryFolder } from '../../test/lake-harness.ts'
import { startAuditedStore } from '../../test/pipeline-audit.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type Account, startStore, type TestStore } from '../../test/store.ts'
import { eraseCopies } from '../app/housekeeping.ts'
import { eraseDueAddresses } from './erase-addresses.ts'

const SECRET = 'Called <b>Ada</b>:\nshe is abroad'
const DAY_MS = 86_400_000

async function placeOrder(store: TestStore, { token }: Account): Promise<string> {
  const { id: product_id } = await store.addProduct({ stock: null })
  const { status, json } = await store.call('POST', '/orders', { token, body: { items: [{ product_id, quantity: 1 }] } })
  assert.equal(status, 201)
  return json.id
}

test("keeps operators' notes in sequence, with their authors", async (t) => {
  const store = await startStore(t)
  const operator = await registerOperator(store)
  const ada = await store.register()
  const [id, other] = [await placeOrder(store, ada), await placeOrder(store, ada)]
  const call = (method: string, path: string, body?: object) => store.call(method, path, { token: operator.token, ...(body && { body }) })
  for (const text of ['one', SECRET, 'three']) {
    const { status, json } = await call('POST', `/admin/orders/${id}/notes`, { text })
    assert.equal(status, 201)
    assert.deepEqual([json.text, json.author], [text, { type: 'admin', id: operator.id }])
  }
  await call('POST', `/admin/orders/${other}/notes`, { text: 'of another order' })
  const textsOf = (answer: { json: { data: { text: string }[] } }) => answer.json.data.map(({ text }) => text)
  const all = await call('GET', `/admin/orders/${id}/notes`)
  assert.deepEqual([textsOf(all), all.json.has_more], [['three', SECRET, 'one'], false])

  const { rows } = await store.pool.query(
    `select action, subject_id, before, after, activities::text as text from activities where action = 'addOrderNote' order by id`,
  )
  assert.equal(rows.length, 4)
  assert.deepEqual([rows[0].subject_id, rows[0].before, Object.keys(rows[0].after)], [id, null, ['note_id']])
  assert.ok(rows.every(({ text }) => !/abroad|three/.test(text)))

  assertProblem(await call('POST', `/admin/orders/${randomUUID()}/notes`, { text: 'x' }), 404, 'not_found')
  assert.equal((await store.pool.query('select from order_notes')).rowCount, 4)
})

test("a note is in no customer's answer, event, mail or lake row, and does not change the order", async (t) => {
  const store = await startAuditedStore(t)
  await store.startPipeline()
  const [operator, ada] = [await registerOperator(store), await store.register()]
  const id = await placeOrder(store, ada)
  const note = await store.call('POST', `/admin/orders/${id}/notes`, { token: operator.token, body: { text: SECRET } })
  assert.equal(note.status, 201)
  assert.equal((await store.call('POST', `/orders/${id}/cancel`, { token: ada.token })).json.version, 2)
  await store.untilDelivered()
  for (const path of [`/orders/${id}`, '/orders']) {
    assert.doesNotMatch((await store.call('GET', path, { token: ada.token })).text, /abroad/, path)
  }
  const { rows } = await store.pool.query(`select count(*) from topic_messages where event::text like '%abroad%'`)
  assert.equal(Number(rows[0].count), 0)
  const { rows: inLake } = await queryFolder(store.lake, `select count(*) from order_events as event where event::varchar like '%abroad%'`)
  assert.deepEqual(inLake.map(String), ['0'])
  assert.deepEqual((await store.verify()).findings, [])
})

test('erases notes with the personal data of their order, even notes added after the account was deleted, and then refuses new ones', async (t) => {
  const store = await startStore(t, { retainOrderAddressDays: 100 })
  const [operator, ada, bob] = [await registerOperator(store), await store.register(), await store.register()]
  const [id, late, ofBob] = [await placeOrder(store, ada), await placeOrder(store, ada), await placeOrder(store, bob)]
  const add = (orderId: string) => store.call('POST', `/admin/orders/${orderId}/notes`, { token: operator.token, body: { text: SECRET } })
  for (const orderId of [id, ofBob]) assert.equal((await add(orderId)).status, 201)
  for (const orderId of [id, late]) assert.equal((await store.call('POST', `/orders/${orderId}/cancel`, { token: ada.token })).status, 200)
  await store.pool.query(`update orders set updated_at = updated_at - interval '200 days'`)
  const noted = async () =>
    (await store.pool.query('select distinct order_id from order_notes order by 1')).rows.map(({ order_id }) => order_id)
  const erase = (now = new Date()) => eraseDueAddresses(store.pool, { eraseCopies, retainDays: 100 }, now)

  assert.equal((await store.call('DELETE', '/me', { token: ada.token })).status, 204)
  assert.deepEqual(await noted(), [ofBob], 'the order was due for its note alone')

  assert.equal((await add(late)).status, 201, 'the account is still watched')
  assert.equal(await erase(), 1)
  assert.deepEqual(await noted(), [ofBob])

  // The erasure and the note run at once: the note is erased later or refused.
  const outcomes = await Promise.all([
    add(late),
    erase(new Date(Date.now() + 2 * DAY_MS)),
    add(late),
    erase(new Date(Date.now() + 2 * DAY_MS)),
  ])
  for (const answer of outcomes) if (typeof answer === 'object') assert.ok([201, 409].includes(answer.status), answer.text)
  await eventually(
    async () => {
      await erase(new Date(Date.now() + 3 * DAY_MS))
      return (await store.pool.query('select from deleted_accounts')).rowCount === 0
    },
    { what: 'the end of the watch' },
  )
  assert.deepEqual(await noted(), [ofBob])
  assertProblem(await add(late), 409, 'order_erased')
  assert.deepEqual(await noted(), [ofBob])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { prepareDatabase } from '../src/app/prepare-database.ts'
import { openCommitWire } from './commit-wire.ts'
import { createTestDatabase } from './database.ts'
import { eventually } from './eventually.ts'
import { addProduct, TEST_SECRET } from './store.ts'
import { serve } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

async function post(url: string, body: unknown, headers: Record<string, string> = {}) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  return { status: answer.status, replayed: answer.headers.get('idempotency-replayed'), text, json: JSON.parse(text) }
}

test('gives the retry its order when the store was killed between commit and answer', async (t) => {
  const database = await createTestDatabase(t)
  await prepareDatabase(database.addresses, pino({ level: 'silent' }))
  const dataDir = makeTestFolder(t)
  const wire = await openCommitWire(t, database.addresses.api, 'answer')
  const env = { STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: dataDir, ROLES: 'api', BASE_URL: 'http://localhost:3000' }
  const lamp = await addProduct(database.pool, { stock: 5 })
  const items = [{ product_id: lamp.id, quantity: 2 }]

  const doomed = await serve(t, { env: { ...env, DATABASE_URL: wire.url } })
  const account = await post(`${doomed.url}/auth/register`, { email: 'ada@example.com', password: 'a long enough passphrase' })
  const headers = { authorization: `Bearer ${account.json.access_token}`, 'idempotency-key': '"once"' }
  wire.holdBackCommits()
  const unanswered = assert.rejects(post(`${doomed.url}/orders`, { items }, headers), 'no answer before the store has seen the commit')
  const countOrders = async () => (await database.pool.query<{ count: number }>('select count(*) from orders')).rows[0]?.count
  await eventually(async () => (await countOrders()) === 1, { what: 'the commit' })
  await doomed.end('SIGKILL')
  await unanswered

  const heir = await serve(t, { env: { ...env, DATABASE_URL: database.addresses.api } })
  const [retry, again] = [await post(`${heir.url}/orders`, { items }, headers), await post(`${heir.url}/orders`, { items }, headers)]
  assert.deepEqual([retry.status, retry.replayed], [201, 'true'], retry.text)
  assert.equal(again.text, retry.text)
  assert.equal(await countOrders(), 1)
  const { rows } = await database.pool.query('select id, available from orders, inventory where product_id = $1', [lamp.id])
  assert.deepEqual(rows, [{ id: retry.json.id, available: 3 }])
})

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { makeDataFolder } from './data-folders.ts'
import { serve } from './store-process.ts'

interface Page {
  data: { id: string; sku: string }[]
}

const SAMPLE = readFileSync(new URL('../src/catalogue/import/sample-catalogue.ndjson', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as { sku: string; name: string; stock: number | null })
const CUSTOMERS = 1_000
const ORDERS = 5_000

test('a store without settings refuses nothing to those who try it: a thousand registrations, and 5,000 orders of one customer', async (t) => {
  // A blank setting is none.
  const { url, logs } = await serve(t, { env: { DATA_DIR: makeDataFolder(t).path, RATE_LIMITS: '' } })
  assert.ok(logs.some(({ msg }) => msg.startsWith('only this machine can reach the store, so limits by network do not apply')))
  const post = async (path: string, body: object, token?: string) => {
    const headers = { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) }
    const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const text = await answer.text()
    assert.equal(answer.status, 201, `${path}: ${text}`)
    return JSON.parse(text)
  }
  let token = ''
  for (let i = 0; i < CUSTOMERS; i++) {
    token = (await post('/auth/register', { email: `customer-${i}@shop.example`, password: 'a long enough passphrase' })).access_token
  }
  for (let i = 0; i < 40; i++) await post('/auth/guest', { email: 'guest@shop.example' })
  const uncounted = SAMPLE.find(({ stock }) => stock === null)
  const { data } = (await (await fetch(`${url}/products?limit=100&q=${encodeURIComponent(uncounted?.name ?? '')}`)).json()) as Page
  const product = data.find(({ sku }) => sku === uncounted?.sku)
  for (let i = 0; i < ORDERS; i++) await post('/orders', { items: [{ product_id: product?.id, quantity: 1 }] }, token)
})

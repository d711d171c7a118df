import assert from 'node:assert/strict'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

const SLOW_CLIENTS = 12
const FIRST_LINES = 'sku,name,category,price\nSLOW-1,A lamp,Lamps,1.00\n'

/** An import that sends a few bytes a second, until the store has answered. Returns the last line of the answer. */
function importSlowly(t: Cleanup, port: number, token: string): Promise<{ code: string; line: number }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ code: string; line: number }>()
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/csv' }
  const sending = request({ host: '127.0.0.1', port, method: 'POST', path: '/admin/products/import', headers }, (answer) => {
    text(answer).then((body) => resolve(JSON.parse(body.trim().split('\n').at(-1) ?? '')), reject)
  })
  sending.write(FIRST_LINES)
  const timer = setInterval(() => sending.write('S'), 300)
  const stop = () => {
    clearInterval(timer)
    sending.destroy()
  }
  sending.on('error', reject).on('close', () => clearInterval(timer))
  onCleanup(t, stop)
  return promise.finally(stop)
}

test('imports of clients that send a few bytes a second end after 25 seconds, and hold up nobody', async (t) => {
  const store = await startStore(t)
  const { port } = store
  const [slow, other] = [await registerOperator(store), await registerOperator(store)]
  const lamp = await store.addProduct()
  const customer = await store.register()
  const since = performance.now()
  let ended = 0
  const imports = Array.from({ length: SLOW_CLIENTS }, () => importSlowly(t, port, slow.token).finally(() => ended++))
  const answers = Promise.allSettled(imports)

  const call = (path: string, { token, type = 'application/json', body }: { token?: string; type?: string; body?: string } = {}) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': type }),
      },
      ...(body === undefined ? {} : { body }),
    })
  const order = JSON.stringify({ items: [{ product_id: lamp.id, quantity: 1 }] })
  const quick = 'sku,name,category,price\nQUICK-1,A vase,Vases,2.00\n'
  for (let round = 0; round < 5; round++) {
    assert.equal((await call('/products')).status, 200)
    assert.equal((await call('/orders', { token: customer.token, body: order })).status, 201)
    const imported = await call('/admin/products/import', { token: other.token, type: 'text/csv', body: quick })
    assert.equal(imported.status, 200)
    assert.match(await imported.text(), /"(created|unchanged|updated)":1\b/)
  }
  assert.equal(ended, 0, 'they were served beside the slow ones')

  const results = await answers
  for (const result of results) {
    assert.equal(result.status, 'fulfilled', String((result as PromiseRejectedResult).reason))
    assert.ok(result.value.code === 'import_too_slow' || result.value.code === 'overloaded', JSON.stringify(result.value))
  }
  assert.ok(results.some((result) => result.status === 'fulfilled' && result.value.code === 'import_too_slow'))
  const tookMs = performance.now() - since
  assert.ok(tookMs < 60_000, `they took ${Math.round(tookMs)} ms`)
})

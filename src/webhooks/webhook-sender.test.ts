import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import type { Duplex } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { isAuthentic, startWebhookReceiver } from '../../test/webhook-receiver.ts'
import { PrivateAddress } from './public-address.ts'
import { createWebhookSender, type WebhookSenderOptions } from './webhook-sender.ts'
import { generateWebhookSecret, signWebhook } from './webhook-signature.ts'

const SECRET = generateWebhookSecret()
const BODY = JSON.stringify({ type: 'storefront.order.created', data: 'Täßchen' })
const HEADERS = signWebhook([SECRET], 'event.1', new Date(), BODY)

function makeSender(t: TestContext, options: Partial<WebhookSenderOptions> = {}) {
  const sender = createWebhookSender({ isPrivateAllowed: true, ...options })
  t.after(() => sender.close())
  return sender
}

/** Counts how often a connection was kept for the next request. */
function watchKept(t: TestContext): () => number {
  const keep = Agent.prototype.keepSocketAlive
  let count = 0
  t.mock.method(Agent.prototype, 'keepSocketAlive', function (this: Agent, socket: Duplex) {
    count += 1
    return keep.call(this, socket)
  })
  return () => count
}

test('signs its own example as Standard Webhooks does', () => {
  // From the reference libraries' tests, https://github.com/standard-webhooks/standard-webhooks/tree/main/libraries
  const headers = signWebhook(
    ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    'msg_p5jXN8AQM9LWM0D4loKWxJek',
    new Date(1_614_265_330_000),
    '{"test": 2432232314}',
  )
  assert.deepEqual(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
  assert.match(generateWebhookSecret(), /^whsec_[A-Za-z0-9+/]{43}=$/)
})

test('posts the body as it was signed, and a receiver can verify it', async (t) => {
  const receiver = await startWebhookReceiver(t)
  const sender = makeSender(t)
  assert.equal((await sender.send(receiver.url, HEADERS, BODY)).status, 204)
  const [request] = receiver.requests
  assert.ok(request)
  assert.equal(request.body, BODY)
  assert.equal(request.headers['content-type'], 'application/cloudevents+json; charset=utf-8')
  assert.ok(isAuthentic(SECRET, request))
  assert.ok(!isAuthentic(generateWebhookSecret(), request))
  assert.ok(!isAuthentic(SECRET, { ...request, body: `${BODY} ` }))
  assert.ok(!isAuthentic(SECRET, { ...request, headers: { ...request.headers, 'webhook-id': 'event.2' } }))
  assert.ok(!isAuthentic(SECRET, request, Date.now() + 600_000))
})

test('the receiver’s code in docs/shop/webhooks.md recognizes authentic webhooks', async (t) => {
  const page = readFileSync(new URL('../../docs/shop/webhooks.md', import.meta.url), 'utf8')
  const code = /```js\n([\s\S]*?)```/.exec(page)?.[1] ?? ''
  const documented = (await import(`data:text/javascript,${encodeURIComponent(`${code}\nexport { isAuthentic }`)}`)).isAuthentic
  const receiver = await startWebhookReceiver(t)
  await makeSender(t).send(receiver.url, HEADERS, BODY)
  const { headers } = receiver.requests[0] ?? assert.fail('nothing came')
  assert.equal(documented(SECRET, headers, Buffer.from(BODY)), true)
  assert.equal(documented(SECRET, headers, Buffer.from(`${BODY} `)), false)
  assert.equal(documented(generateWebhookSecret(), headers, Buffer.from(BODY)), false)
  assert.equal(documented(SECRET, { ...headers, 'webhook-timestamp': '1614265330' }, Buffer.from(BODY)), false)
})

test('follows no redirect', async (t) => {
  const [receiver, target] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
  receiver.answer((response) => void response.writeHead(307, { location: target.url }).end())
  assert.equal((await makeSender(t).send(receiver.url, HEADERS, BODY)).status, 307)
  assert.equal(target.connections, 0)
})

test('waits for an answer until the timeout, and does not wait for the end of its body', { timeout: 60_000 }, async (t) => {
  const receiver = await startWebhookReceiver(t)
  const sender = makeSender(t, { timeoutMs: 200 })
  receiver.answer(() => {})
  await assert.rejects(sender.send(receiver.url, HEADERS, BODY), /^Error: no answer within 0.2 s$/)
  receiver.answer((response) => void response.writeHead(200).write('and so on'))
  assert.equal((await makeSender(t).send(receiver.url, HEADERS, BODY)).status, 200)
})

test('reads only the beginning of an endless answer', { timeout: 60_000 }, async (t) => {
  const receiver = await startWebhookReceiver(t)
  let written = 0
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  receiver.answer((response) => {
    response.on('close', resolve)
    const chunk = Buffer.alloc(65_536)
    const more = () => {
      while (!response.destroyed && response.write(chunk)) written += chunk.length
    }
    response.writeHead(200).on('drain', more)
    more()
  })
  assert.equal((await makeSender(t).send(receiver.url, HEADERS, BODY)).status, 200)
  await closed
  // Nearly all of it is in the buffers of the two sockets, which are as large as the system likes.
  assert.ok(written < 128_000_000, String(written))
})

test('keeps a connection for the next delivery, and copes with a receiver that closes it meanwhile', async (t) => {
  const receiver = await startWebhookReceiver(t)
  const sender = makeSender(t)
  receiver.answer((response) => void response.writeHead(200).end('thanks'))
  const countKept = watchKept(t)
  await sender.send(receiver.url, HEADERS, BODY)
  await eventually(async () => countKept() === 1, { what: 'a connection that is free' })
  await sender.send(receiver.url, HEADERS, BODY)
  assert.equal(receiver.connections, 1)
  let isFirst = true
  receiver.answer((response) => {
    if (isFirst) response.destroy()
    else response.writeHead(200).end()
    isFirst = false
  })
  await eventually(async () => countKept() === 2, { what: 'a connection that is free' })
  assert.equal((await sender.send(receiver.url, HEADERS, BODY)).status, 200)
})

test('a stop ends a request on a kept connection, and sends it no second time', async (t) => {
  const receiver = await startWebhookReceiver(t)
  const sender = makeSender(t)
  const countKept = watchKept(t)
  await sender.send(receiver.url, HEADERS, BODY)
  await eventually(async () => countKept() === 1, { what: 'a connection that is free' })
  receiver.answer(() => {})
  const refused = assert.rejects(sender.send(receiver.url, HEADERS, BODY), /socket hang up/)
  await eventually(async () => receiver.requests.length === 2, { what: 'the second request' })
  sender.close()
  await refused
  assert.deepEqual([receiver.requests.length, receiver.connections], [2, 1])
})

test('does not connect to an address that is not public', async (t) => {
  const receiver = await startWebhookReceiver(t)
  const sender = makeSender(t, { isPrivateAllowed: false })
  const URLS = [`http://127.0.0.1:${receiver.port}/`, `https://127.0.0.1:${receiver.port}/`, `https://localhost:${receiver.port}/`]
  for (const url of URLS) await assert.rejects(sender.send(url, HEADERS, BODY), PrivateAddress, url)
  await assert.rejects(sender.send(URLS[0] ?? '', HEADERS, BODY), /plain http is not allowed without WEBHOOK_ALLOW_PRIVATE=on/)
  assert.equal(receiver.connections, 0)
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { makeKey } from '../../../test/api-keys.ts'
import { addBuyer } from '../../../test/buyers.ts'
import { eventually, stopClock } from '../../../test/eventually.ts'
import { makeCopies } from '../../../test/fresh-copies.ts'
import { assertProblem } from '../../../test/problem.ts'
import { sendRaw } from '../../../test/raw-http.ts'
import { startStore } from '../../../test/store.ts'
import { auditContextOfCommand } from '../../activity/record-activity.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import type { Client, SecurityFields } from '../client.ts'
import { createAuthenticateKey, REFUSED_KEYS, REQUESTS_OF_KEY } from './authenticate-key.ts'
import { formatKey, newSecret, parseKey } from './key-text.ts'
import { LastUses } from './last-uses.ts'
import { LiveKeys } from './live-keys.ts'
import { revokeApiKey } from './revoke-api-key.ts'

const logger = pino({ level: 'silent' })
const store = await startStore({ after })

/** The keys of a process alone, and a count of the queries that are not polls. */
async function startKeys(t: TestContext, { isByNetwork = true, isStarted = true } = {}) {
  const counted = { queries: 0 }
  const pool = new Proxy(store.pool, {
    get(target, name) {
      if (name === 'query') counted.queries++
      const value = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const { copies, gate, cut, poll } = makeCopies(t, store)
  const liveKeys = new LiveKeys(copies, pool)
  if (isStarted) await copies.start()
  const lastUses = new LastUses({ pool, logger, now: () => new Date() })
  const authenticate = createAuthenticateKey({ liveKeys, lastUses, isThrottled: true, isByNetwork, now: () => new Date() })
  const events: string[] = []
  const record = (event: string, { reason, limit }: SecurityFields = {}) =>
    void events.push([event, reason ?? limit].filter(Boolean).join(': '))
  const from = (address: string): Client => ({ address, userAgent: null, language: 'en', record })
  const codeOf = (token: string, address = '203.0.113.7') =>
    authenticate(token, from(address)).then(
      () => 'accepted',
      (error) => (error instanceof AppError ? error.code : String(error)),
    )
  return { copies, gate, liveKeys, cut, counted, events, codeOf, poll }
}

test('sends no query for a known key', async (t) => {
  const { id, key } = await makeKey(store, ['orders:move'])
  const path = `/admin/orders/${id}/transitions`
  const startClock = stopClock(t)
  await eventually(async () => (await store.call('POST', path, { token: key, body: {} })).status === 422)
  // A query of the key would fail now. The 422 comes from the body, which is read after the key check.
  await store.pool.query('alter table api_keys rename to api_keys_elsewhere')
  const answer = await store.call('POST', path, { token: key, body: {} })
  await store.pool.query('alter table api_keys_elsewhere rename to api_keys')
  startClock()
  assert.equal(answer.status, 422, answer.text)
})

test('a key that this process has revoked is refused at once, even after a poll that read it as valid', async (t) => {
  const held = Promise.withResolvers<void>()
  t.after(() => held.resolve())
  const { liveKeys, gate, codeOf, poll } = await startKeys(t)
  // While this transaction is open, every poll rereads the keys that are younger than it.
  const open = await store.pool.connect()
  t.after(() => open.release(true))
  await open.query('begin; select pg_current_xact_id()')
  const { id, key } = await makeKey(store, ['orders:read'])
  await poll()
  stopClock(t)
  gate.held = held.promise
  const polled = poll()
  await eventually(async () => gate.holding > 0)
  assert.equal(await codeOf(key), 'accepted')
  await revokeApiKey(store.pool, id, { auditContext: auditContextOfCommand('keys revoke'), now: new Date() })
  await liveKeys.refresh()
  assert.equal(await codeOf(key), 'invalid_token')
  held.resolve()
  await polled
  assert.equal(await codeOf(key), 'invalid_token')
})

test('a thousand wrong keys a second cost a few queries together, are throttled, and do not delay a correct key', async (t) => {
  const { counted, codeOf, events, poll } = await startKeys(t)
  const { id, key } = await makeKey(store, ['orders:read'])
  await poll()
  stopClock(t)
  const wrong = [
    ...Array.from({ length: 400 }, () => formatKey({ id: randomUUID(), secret: newSecret() })),
    ...Array.from({ length: 300 }, () => formatKey({ id, secret: newSecret() })),
    ...Array.from({ length: 300 }, (_, i) => `${key.slice(0, -6)}${String(i).padStart(6, '0')}`),
  ]
  const beganAt = Date.now()
  const answers = wrong.map((token) => codeOf(token))
  assert.equal(await codeOf(key), 'accepted', 'from the same address, and while others wait')
  await poll()
  const codes = Map.groupBy(await Promise.all(answers), (code) => code)
  // A key waits up to a second for a poll. A busy machine may take longer.
  if (Date.now() - beganAt < 1_000) assert.equal(counted.queries, 0)
  assert.deepEqual(
    [codes.get('invalid_token')?.length, codes.get('rate_limited')?.length],
    [REFUSED_KEYS.points, 1_000 - REFUSED_KEYS.points],
  )
  assert.equal(events.filter((event) => event.startsWith('api_key_refused')).length, REFUSED_KEYS.points, 'the log is bounded too')
  assert.deepEqual(
    events.filter((event) => event.startsWith('throttled')),
    ['throttled: api-key-refused'],
  )
  assert.equal(await codeOf(key), 'accepted', 'afterwards too')
  assert.equal(await codeOf(`${key}0`, '203.0.113.8'), 'invalid_token', 'another address has its own count')
})

test('a wrong key past the limit gets 429 with Retry-After, and a correct key from the same address is accepted', async (t) => {
  const limited = await startStore(t, { isRateLimited: true })
  const { key } = await makeKey(limited, ['orders:read'])
  for (let i = 0; i < REFUSED_KEYS.points; i++)
    assertProblem(await limited.call('GET', '/admin/orders', { token: `${key}0` }), 401, 'invalid_token')
  for (const path of ['/admin/orders', '/me']) {
    const refused = await limited.call('GET', path, { token: `${key}0` })
    assertProblem(refused, 429, 'rate_limited')
    assert.match(refused.headers['retry-after'] ?? '', /^([1-9]|[1-5]\d|60)$/)
    assert.equal(refused.headers['ratelimit-policy'], '"api-key-refused";q=60;w=60')
  }
  await limited.ok('GET', '/admin/orders', { token: key })
})

test('a key has its own number of requests in ten seconds, which no other key uses up', async (t) => {
  const { codeOf, events, poll } = await startKeys(t)
  const [{ key }, { key: other }] = [await makeKey(store, ['orders:read']), await makeKey(store, ['orders:read'])]
  await poll()
  const startClock = stopClock(t)
  await poll()
  for (let i = 0; i < REQUESTS_OF_KEY.points; i++) assert.equal(await codeOf(key), 'accepted')
  assert.deepEqual([await codeOf(key), await codeOf(key), await codeOf(other)], ['rate_limited', 'rate_limited', 'accepted'])
  assert.deepEqual(events, ['throttled: api-key'])
  startClock()
  await poll()
  assert.equal(await codeOf(key), 'accepted', 'a minute later')
})

test('counts the requests of a key but no wrong keys when limits by network are off', async (t) => {
  const { codeOf, poll } = await startKeys(t, { isByNetwork: false })
  const { key } = await makeKey(store, ['orders:read'])
  await poll()
  stopClock(t)
  await poll()
  for (let i = 0; i < REQUESTS_OF_KEY.points; i++) assert.equal(await codeOf(key), 'accepted')
  assert.equal(await codeOf(key), 'rate_limited')
  for (let i = 0; i <= REFUSED_KEYS.points; i++) assert.equal(await codeOf(`${key}0`), 'invalid_token')
})

test('a key that another process has just made waits for the next poll', async (t) => {
  const { counted, codeOf, poll } = await startKeys(t)
  await poll()
  stopClock(t)
  await poll()
  const { key } = await makeKey(store, ['orders:read'])
  const answer = codeOf(key)
  await poll()
  assert.equal(await answer, 'accepted')
  assert.equal(counted.queries, 0)
})

test('without polls, each request queries its key, and a reconnect rereads every key', async (t) => {
  const { copies, gate, cut, counted, codeOf, poll } = await startKeys(t, { isStarted: false })
  const [{ id, key }, { key: another }] = [await makeKey(store, ['orders:read']), await makeKey(store, ['orders:read'])]
  assert.deepEqual([await codeOf(key), await codeOf(another), counted.queries], ['accepted', 'accepted', 2])
  await copies.start()
  stopClock(t)
  const before = counted.queries
  assert.equal(await codeOf(key), 'accepted')
  assert.equal(counted.queries, before)
  gate.isOpen = false
  await cut()
  await store.pool.query(`update api_keys set revoked_at = now(), revoked_reason = 'revoked' where id = $1`, [id])
  assert.equal(await codeOf(key), 'accepted', 'the last poll is less than a second ago')
  gate.isOpen = true
  await eventually(async () => gate.connections === 2)
  await poll()
  await poll()
  assert.equal(await codeOf(key), 'invalid_token', 'revoked while nothing polled')
  assert.equal(await codeOf(another), 'accepted')
  assert.equal(counted.queries, before)
})

test('misses no revocation that commits after a later one', async (t) => {
  const { codeOf, poll } = await startKeys(t)
  const [early, late] = [await makeKey(store, ['orders:read']), await makeKey(store, ['orders:read'])]
  await poll()
  stopClock(t)
  await poll()
  const revoke = `update api_keys set revoked_at = now(), revoked_reason = 'revoked' where id = $1`
  await inTransaction(store.pool, async (tx) => {
    await tx.query(revoke, [early.id])
    await store.pool.query(revoke, [late.id])
    await poll()
    await poll()
    assert.equal(await codeOf(early.key), 'accepted', 'not committed yet')
  })
  await poll()
  const answers = [early, late].map(({ key }) => codeOf(key))
  await poll()
  assert.deepEqual(await Promise.all(answers), ['invalid_token', 'invalid_token'])
})

test("two processes together record a key's last use by a timer at most once a minute", async () => {
  const [{ id, key }, { id: unused }] = [await makeKey(store, ['orders:read']), await makeKey(store, ['orders:read'])]
  await store.ok('GET', '/admin/orders', { token: key })
  const readUse = async (keyId: string): Promise<Date | null> =>
    (await store.pool.query('select last_used_at from api_keys where id = $1', [keyId])).rows[0].last_used_at
  await eventually(async () => (await readUse(id)) !== null, { what: 'the first use is written' })
  assert.equal(await readUse(unused), null)

  const began = (await readUse(id)) as Date
  const use = async (secondsLater: number) => {
    const uses = new LastUses({ pool: store.pool, logger, now: () => new Date(began.getTime() + secondsLater * 1000) })
    uses.note(id)
    await uses.stop()
    return Math.round((((await readUse(id)) as Date).getTime() - began.getTime()) / 1000)
  }
  assert.deepEqual([await use(30), await use(59), await use(61), await use(90), await use(125)], [0, 0, 61, 61, 125])
})

test('recording last uses does not wait for a locked key, and the use is not lost', async () => {
  const [held, free] = [await makeKey(store, ['orders:read']), await makeKey(store, ['orders:read'])]
  const uses = new LastUses({ pool: store.pool, logger, now: () => new Date() })
  const read = async () => {
    const { rows } = await store.pool.query('select id from api_keys where id = any($1) and last_used_at is not null', [[held.id, free.id]])
    return rows.map(({ id }) => id)
  }
  await inTransaction(store.pool, async (tx) => {
    await tx.query('select from api_keys where id = $1 for update', [held.id])
    for (const { id } of [held, free]) uses.note(id)
    await uses.stop()
    assert.deepEqual(await read(), [free.id])
  })
  uses.note(held.id)
  await uses.stop()
  assert.equal((await read()).length, 2)
})

test('refuses a key over a real connection when a second header is beside it', async (t) => {
  const listening = await startStore(t)
  const { key } = await makeKey(listening, ['orders:read'])
  const good = `Authorization: Bearer ${key}`
  const send = (lines: string[]) =>
    sendRaw(listening, ['GET /admin/orders HTTP/1.1', 'Host: localhost', 'Connection: close', ...lines, '', ''].join('\r\n'))
  assert.equal((await send([good])).status, 200)
  for (const lines of [
    [good, good],
    [good, 'authorization: Bearer x'],
    ['AUTHORIZATION: Basic eDp5', good],
  ])
    assert.equal((await send(lines)).status, 401, lines.join())
})

test('the order history, stock adjustments and events name the key that made a change as their actor', async () => {
  const { id, key } = await makeKey(store, ['orders:move', 'stock:write'])
  const product = await store.addProduct({ stock: 5 })
  const buyer = await addBuyer(store)
  const placed = await buyer.ok('POST', '/orders', { body: { items: [{ product_id: product.id, quantity: 1 }] } })
  await store.ok('POST', `/admin/orders/${placed.id}/transitions`, { token: key, body: { to: 'confirmed' } })
  const adjusted = await store.call('POST', `/admin/products/${product.id}/stock/adjustments`, {
    token: key,
    body: { delta: 3, reference: 'Delivery 7' },
  })
  assert.deepEqual([adjusted.status, adjusted.json.actor], [201, { type: 'key', id }])
  await store.ok('PUT', `/admin/products/${product.id}/stock`, { token: key, body: { stock: 9, expected: 7 } })
  const { rows: adjustments } = await store.pool.query('select actor_type, actor_id from stock_adjustments where product_id = $1', [
    product.id,
  ])
  assert.deepEqual(adjustments, Array(2).fill({ actor_type: 'key', actor_id: id }))
  const { rows } = await store.pool.query('select status_history from orders where id = $1', [placed.id])
  assert.deepEqual(
    rows[0].status_history.map(({ status, actor }: { status: string; actor: object }) => [status, actor]),
    [
      ['pending', { type: 'customer', id: buyer.id }],
      ['confirmed', { type: 'key', id }],
    ],
  )
  assert.ok(parseKey(key) !== null)
})

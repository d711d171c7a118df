import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase, findWaiting } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { freePort } from '../../test/free-port.ts'
import { collectLog } from '../../test/logs.ts'
import { assertProblem } from '../../test/problem.ts'
import { addProduct, TEST_SECRET } from '../../test/store.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { prepareDatabase } from '../app/prepare-database.ts'
import { createApp } from '../app.ts'
import { readConfig } from '../config.ts'
import { connectClient } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { RefusalLog } from './refusal-log.ts'

/** The server's message ReadyForQuery after a commit, when no transaction is open. */
const READY_OUTSIDE_TRANSACTION = 'Z\0\0\0\x05I'

/** A proxy to PostgreSQL that can cut connections, and lose the server's answer to a statement. */
async function openWire(t: TestContext, url: string) {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  let lossy: string | null = null
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    let isLosing = false
    client.on('data', (bytes) => {
      isLosing ||= lossy !== null && bytes.includes(lossy)
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (!isLosing) client.write(bytes)
      else if (bytes.includes(READY_OUTSIDE_TRANSACTION)) client.destroy()
    })
  })
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  const port = await freePort()
  await listen(port)
  const cut = () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  onCleanup(t, cut)
  return {
    url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href,
    cut,
    mend: () => listen(port),
    /**
     * From now on, statements that contain `text` reach the server, and their answers are lost. Null restores the
     * answers.
     */
    loseAnswersTo(text: string | null) {
      lossy = text
    },
  }
}

/** An API that reaches its database only through the proxy, and a customer. */
async function startWiredStore(t: TestContext, logger = pino({ level: 'silent' })) {
  const database = await createTestDatabase(t)
  await prepareDatabase(database.addresses, pino({ level: 'silent' }))
  const wire = await openWire(t, database.addresses.api)
  const dataDir = makeTestFolder(t)
  const config = readConfig({
    DATABASE_URL: wire.url,
    STOREFRONT_SECRET: TEST_SECRET,
    DATA_DIR: dataDir,
    PORT: '0',
    OPS_PORT: 'off',
    ROLES: 'api',
  })
  const app = await createApp({ config, logger })
  onCleanup(t, () => app.stop())
  await app.start()
  const call = async (method: 'GET' | 'POST', url: string, payload?: object, headers: Record<string, string> = {}) => {
    const answer = await app.server?.inject({ method, url, headers, ...(payload === undefined ? {} : { payload }) })
    if (answer === undefined) throw new Error('no server')
    return { status: answer.statusCode, headers: answer.headers as Record<string, string | undefined>, text: answer.body }
  }
  const account = { email: `${randomUUID()}@example.com`, password: 'a long enough passphrase' }
  const registered = await call('POST', '/auth/register', account)
  const authorization = `Bearer ${JSON.parse(registered.text).access_token}`
  const lamp = await addProduct(database.pool, { stock: 5 })
  const placeOrder = (headers: Record<string, string> = {}) =>
    call('POST', '/orders', { items: [{ product_id: lamp.id, quantity: 2 }] }, { authorization, ...headers })
  const readState = async () => {
    const { rows } = await database.pool.query(
      `select (select count(*) from orders) as orders, (select count(*) from idempotency_keys) as keys, available
      from inventory
      where product_id = $1`,
      [lamp.id],
    )
    return rows[0]
  }
  return { ...database, wire, call, lamp, authorization, placeOrder, readState }
}

test('answers with Retry-After during a database outage, and recovers by itself', async (t) => {
  const { wire, call, authorization, placeOrder, readState } = await startWiredStore(t)
  wire.cut()
  // The first answers come from broken connections, the second from connections that could not be opened.
  for (let attempt = 1; attempt <= 2; attempt++) {
    for (const answer of await Promise.all([
      call('GET', '/products'),
      call('GET', '/orders', undefined, { authorization }),
      placeOrder(),
      call('POST', '/auth/refresh', { refresh_token: 'x' }),
    ])) {
      assertProblem(answer, 503, 'unavailable')
      assert.match(answer.headers['retry-after'] ?? '', /^\d+$/)
    }
  }
  assert.equal((await call('GET', '/readyz')).status, 503)
  assert.equal((await call('GET', '/livez')).status, 200)
  assertProblem(await call('GET', '/nope'), 404, 'not_found')

  await wire.mend()
  assert.equal((await call('GET', '/products')).status, 200)
  assert.equal((await placeOrder()).status, 201)
  assert.deepEqual(await readState(), { orders: 1, keys: 0, available: 3 })
})

const REFUSED_LOGINS = [
  {
    how: 'takes no connections',
    refuse: (name: string) => `alter database ${name} allow_connections false`,
    back: (name: string) => `alter database ${name} allow_connections true`,
  },
  {
    how: 'may not be connected to',
    refuse: (name: string) => `revoke connect on database ${name} from public`,
    back: (name: string) => `grant connect on database ${name} to public`,
  },
]
for (const { how, refuse, back } of REFUSED_LOGINS) {
  test(`a database that ${how} is unavailable with that reason until it is back`, async (t) => {
    const { logger, lines } = collectLog('warn')
    const { name, addresses, call, placeOrder } = await startWiredStore(t, logger)
    await using admin = await connectClient(Object.assign(new URL(addresses.owner), { pathname: '/postgres' }).href, 'test')
    const end = () => admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, [name])
    await admin.query(refuse(name))
    await end()
    // The first answers come from ended sessions, the later ones from refused logins.
    for (let attempt = 1; attempt <= 3; attempt++) {
      for (const answer of await Promise.all([placeOrder(), call('GET', '/products?q=lamp')])) {
        assertProblem(answer, 503, 'unavailable')
        assert.match(answer.headers['retry-after'] ?? '', /^\d+$/)
      }
    }
    const readiness = await call('GET', '/readyz')
    assert.equal(readiness.status, 503)
    assert.match(readiness.text, /database/)
    assert.ok(!lines.some((line) => JSON.parse(line).level >= 50 && 'request_id' in JSON.parse(line)), lines.join(''))

    await admin.query(back(name))
    assert.equal((await placeOrder()).status, 201)
    await eventually(async () => (await call('GET', '/readyz')).status === 200, { what: 'readiness' })
  })
}

test('refusals are logged with a reason even if the error of a host with several addresses has no message', async () => {
  const socket = connect({
    port: await freePort(),
    host: 'database.test',
    lookup: (_host, _options, callback) =>
      callback(null, [
        { address: '127.0.0.1', family: 4 },
        { address: '127.0.0.2', family: 4 },
      ]),
  })
  const [cause] = await once(socket, 'error').catch((error) => [error])
  assert.ok(cause instanceof AggregateError && cause.message === '')
  for (const error of [cause, new AggregateError(cause.errors), new AppError('unavailable', 'No answer.', { cause })]) {
    const { logger, entries: lines } = collectLog<{ reason: string }>()
    const refusals = new RefusalLog(logger)
    refusals.add(error, { request_id: 'request', trace_id: 'trace' })
    assert.match(lines[0]?.reason ?? '', /^connect ECONNREFUSED 127\.0\.0\.1:\d+$/)
  }
})

test('logs an outage by one line for each reason, without a stack, whatever the number of refused requests', async (t) => {
  const { logger, entries: lines } = collectLog()
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const refusals = new RefusalLog(logger)
  const outage = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' })
  const ids = (request_id: string) => ({ request_id, trace_id: `trace of ${request_id}` })
  for (let i = 0; i < 5_000; i++) refusals.add(outage, ids(`request-${i}`))
  refusals.add(new AppError('unavailable', 'Too many wait.'), ids('request-x'))
  const [reason, other] = ['ECONNREFUSED: connect ECONNREFUSED 127.0.0.1:5432', 'unavailable: Too many wait.']
  assert.deepEqual(
    lines.map((line) => [line.level, line.reason, line.request_id, line.trace_id]),
    [
      [40, reason, 'request-0', 'trace of request-0'],
      [40, other, 'request-x', 'trace of request-x'],
    ],
  )
  assert.ok(!lines.some((line) => JSON.stringify(line).includes('at ')))
  t.mock.timers.tick(10_000)
  assert.deepEqual(
    lines.slice(2).map((line) => [line.reason, line.refused]),
    [[reason, 4_999]],
  )
  t.mock.timers.tick(10_000)
  refusals.add(outage, ids('request-y'))
  assert.equal(lines.length, 4, 'the next outage begins with a line again')
  for (let i = 0; i < 100; i++) refusals.add(new Error(`reason ${i}`), ids('request-z'))
  assert.ok(lines.length < 30, 'reasons that are never the same are one')
})

test('refusals under load are few lines in the log', async (t) => {
  const { logger, lines } = collectLog('warn')
  const { wire, call, placeOrder } = await startWiredStore(t, logger)
  wire.cut()
  const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? placeOrder() : call('GET', '/products'))))
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [503])
  const refusals = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg.startsWith('a request was refused'))
  assert.ok(refusals.length >= 1 && refusals.length <= 5, lines.join(''))
  assert.ok(refusals.every((line) => line.err === undefined && typeof line.reason === 'string'))
})

test('stores nothing of an order whose database connection breaks midway, and places it when it is resent', async (t) => {
  const { pool, lamp, placeOrder, readState } = await startWiredStore(t)
  const headers = { 'idempotency-key': 'half-way' }
  const holder = await pool.connect()
  onCleanup(t, () => holder.release(true))
  await holder.query('begin')
  await holder.query('select from inventory where product_id = $1 for update', [lamp.id])
  const waiting = placeOrder(headers)
  const pid = await eventually(async () => (await findWaiting(pool, holder))[0], { what: 'an order that waits for its stock' })
  await pool.query('select pg_terminate_backend($1)', [pid])
  assertProblem(await waiting, 503, 'unavailable')
  await holder.query('rollback')
  assert.deepEqual(await readState(), { orders: 0, keys: 0, available: 5 })

  assert.equal((await placeOrder(headers)).status, 201)
  assert.deepEqual(await readState(), { orders: 1, keys: 1, available: 3 })
})

test('answers a retry with the order whose commit was never confirmed', async (t) => {
  const { wire, placeOrder, readState } = await startWiredStore(t)
  const headers = { 'idempotency-key': 'unheard' }
  wire.loseAnswersTo('place_orders')
  assertProblem(await placeOrder(headers), 503, 'unavailable')
  wire.loseAnswersTo(null)
  assert.deepEqual(await readState(), { orders: 1, keys: 1, available: 3 })

  const retry = await placeOrder(headers)
  assert.equal(retry.status, 201, retry.text)
  assert.equal(retry.headers['idempotency-replayed'], 'true')
  assert.deepEqual(await readState(), { orders: 1, keys: 1, available: 3 })
})

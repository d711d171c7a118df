import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { Type } from 'typebox'
import { addBuyer } from '../../test/buyers.ts'
import { eventually } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { assertProblem } from '../../test/problem.ts'
import { openSocket, sendRaw } from '../../test/raw-http.ts'
import { startStore } from '../../test/store.ts'
import { createHttpServer } from './server.ts'

const store = await startStore({ after })
const ada = await store.register()

test('answers malformed HTTP with a problem and closes the connection', async () => {
  for (const bytes of [
    'garbage\r\n\r\n',
    'GET /products HTTP/9.9\r\n\r\n',
    'GET /pro ducts HTTP/1.1\r\nHost: x\r\n\r\n',
    'POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n',
    'POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'GET /products HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n',
    Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]),
  ]) {
    assertProblem(await sendRaw(store, bytes), 400, 'malformed_request', String(bytes))
  }
})

test('logs a request that cannot be read as one line with the ids of its problem', async (t) => {
  const { logger, entries: lines } = collectLog()
  const server = await createHttpServer({ logger, baseUrl: 'http://localhost', authenticate: () => Promise.reject(new Error('unused')) })
  t.after(() => server.close())
  await server.listen({ host: '127.0.0.1', port: 0 })
  lines.length = 0
  const { request_id, trace_id } = assertProblem(await sendRaw({ server }, 'garbage\r\n\r\n'), 400, 'malformed_request')
  assert.deepEqual(
    lines.map((line) => [line.request_id, line.trace_id, line.status, line.reason]),
    [[request_id, trace_id, 400, 'HPE_INVALID_METHOD']],
  )
})

test('refuses headers that are too large', async () => {
  const answer = await sendRaw(store, `GET /products HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`)
  assertProblem(answer, 431, 'malformed_request')
  assert.equal(answer.headers['cache-control'], 'no-store')
})

test('refuses a chunked body over the limit', async () => {
  const head = `POST /orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ada.token}\r\nContent-Type: application/json\r\n`
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
  const answer = await sendRaw(store, `${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(20)}0\r\n\r\n`)
  assertProblem(answer, 413, 'payload_too_large')
})

test('places no order when the body breaks off', async () => {
  const lamp = await store.addProduct({ stock: 3 })
  const body = JSON.stringify({ items: [{ product_id: lamp.id, quantity: 1 }] })
  const head = `POST /orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ada.token}\r\nContent-Type: application/json\r\n`
  const refused = new Promise<void>((resolve) => store.server.server.once('request', (request) => request.once('close', () => resolve())))
  const socket = await openSocket(store)
  socket.on('error', () => {})
  // The part that arrives is a complete order by itself.
  socket.write(`${head}Content-Length: ${body.length + 10}\r\n\r\n${body}`)
  await once(store.server.server, 'request')
  socket.destroy()
  await refused
  await eventually(async () => (await countConnections()) === 0, { what: 'the end of the connection' })
  const { rows } = await store.pool.query(
    'select (select count(*) from orders) as orders, available from inventory where product_id = $1',
    [lamp.id],
  )
  assert.deepEqual(rows, [{ orders: 0, available: 3 }])
})

function countConnections(): Promise<number> {
  return new Promise((resolve, reject) => store.server.server.getConnections((error, count) => (error ? reject(error) : resolve(count))))
}

test('hides an internal error from the client and logs it in full', async (t) => {
  const { logger, lines } = collectLog('error')
  const server = await createHttpServer({ logger, baseUrl: 'http://localhost', authenticate: () => Promise.reject(new Error('unused')) })
  t.after(() => server.close())
  const isPublic = { config: { access: 'public', cost: 'memory' } } as const
  server.get('/throws', isPublic, async () => {
    throw new Error('password=hunter2 in select * from users')
  })
  server.get('/database', isPublic, async () => {
    throw Object.assign(new Error('duplicate key value hunter2'), { code: '23505', constraint: 'no_such', detail: 'hunter2' })
  })
  server.get('/row', isPublic, async () => {
    await store.pool.query('insert into rate_limits (key, points) values ($1, 1), ($1, 1)', ['hunter2@example.com'])
  })
  server.get('/status', isPublic, async () => {
    throw Object.assign(new Error('hunter2'), { statusCode: 502 })
  })
  server.get('/text', isPublic, async () => {
    throw 'hunter2'
  })
  server.get('/null', isPublic, async () => Promise.reject(null))
  for (const path of ['/throws', '/database', '/row', '/status', '/text', '/null']) {
    lines.length = 0
    const { statusCode, headers, body } = await server.inject(path)
    const problem = assertProblem({ status: statusCode, headers: headers as Record<string, string>, text: body }, 500, 'internal', path)
    assert.doesNotMatch(body, /hunter2|users|23505/, path)
    assert.deepEqual(Object.keys(problem).sort(), ['code', 'detail', 'request_id', 'status', 'title', 'trace_id', 'type'])
    assert.equal(lines.length, 1, path)
    const { request_id, trace_id } = JSON.parse(lines[0] ?? '')
    assert.deepEqual([request_id, trace_id], [problem.request_id, problem.trace_id])
    if (path === '/row') assert.doesNotMatch(lines[0] ?? '', /hunter2/)
  }
})

test('a call whose schema has a default needs no body, and every other call does', async (t) => {
  const logger = pino({ level: 'silent' })
  const server = await createHttpServer({ logger, baseUrl: 'http://localhost', authenticate: () => Promise.reject(new Error('unused')) })
  t.after(() => server.close())
  const config = { access: 'public', cost: 'memory' } as const
  const member = Type.Optional(Type.Integer())
  const bodies = {
    optional: Type.Object({ member }, { additionalProperties: false, default: {} }),
    some: Type.Object({ member }),
    required: Type.Object({ member: Type.Integer() }),
    either: Type.Union([Type.Object({ member }), Type.Object({ other: member })]),
  }
  for (const [name, body] of Object.entries(bodies)) server.post(`/${name}`, { config, schema: { body } }, async (request) => request.body)
  const send = async (path: string, headers = {}, payload?: string) => {
    const { statusCode, json } = await server.inject({ method: 'POST', url: path, headers, ...(payload === undefined ? {} : { payload }) })
    return [statusCode, json().code ?? json()]
  }
  const type = { 'content-type': 'application/json' }
  assert.deepEqual(await send('/optional'), [200, {}])
  assert.deepEqual(await send('/optional', type), [200, {}])
  assert.deepEqual(await send('/optional', type, '{"member":7}'), [200, { member: 7 }])
  for (const payload of ['null', '{"other":1}']) assert.deepEqual(await send('/optional', type, payload), [422, 'invalid_body'], payload)
  for (const path of ['/some', '/required', '/either']) {
    assert.deepEqual(await send(path), [415, 'unsupported_media_type'], path)
    assert.deepEqual(await send(path, type), [400, 'malformed_json'], path)
  }
  await server.ready()
  const { paths = {} } = server.swagger() as { paths?: Record<string, { post?: { requestBody?: { required?: boolean } } }> }
  assert.deepEqual(
    Object.entries(paths).map(([path, { post }]) => [path, post?.requestBody?.required]),
    [
      ['/optional', false],
      ['/some', true],
      ['/required', true],
      ['/either', true],
    ],
  )
})

test('ends the connection of a client that sends a body in tiny chunks, and accepts small chunks', async () => {
  const operator = await addBuyer(store, 'admin')
  const body = JSON.stringify({ items: [], note: 'x'.repeat(20_000) })
  const chunked = (text: string, length: number) =>
    (text.match(new RegExp(`.{1,${length}}`, 'gs')) ?? []).map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')
  for (const [path, type, text] of [
    ['/orders', 'application/json', body],
    ['/admin/orders/transitions', 'application/x-ndjson', '{}\n'.repeat(5_000)],
    ['/admin/products/import', 'application/x-ndjson', '{}\n'.repeat(5_000)],
    // These requests are refused before the body is read.
    ['/nowhere', 'application/json', body],
    ['/orders', 'text/plain', body],
  ] as const) {
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${operator.token}\r\nContent-Type: ${type}\r\n`
    const send = (length: number) =>
      sendRaw(store, `${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(text, length)}0\r\n\r\n`)
    assert.ok(Number.isNaN((await send(1)).status), `${path} has no answer`)
    assert.ok([200, 404, 415, 422].includes((await send(100)).status), path)
  }
})

import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'
import { createHttpServer } from './server.ts'

const store = await startStore({ after })
const ada = await store.register()

async function openSocket() {
  const { port } = store.server.server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  return socket
}

/** Sends bytes and returns the one answer that ends the connection. */
async function sendRaw(bytes: string | Buffer) {
  const socket = await openSocket()
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
  })
  // The server may close while we still write.
  socket.on('error', () => {})
  socket.write(bytes)
  await once(socket, 'close')
  const [head = '', body = ''] = text.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = Object.fromEntries(lines.map((line) => line.split(/: ?(.*)/, 2).map((part, i) => (i === 0 ? part.toLowerCase() : part))))
  return { status: Number(first.split(' ')[1]), headers, text: body }
}

test('answers what is no HTTP with a problem and closes the connection', async () => {
  for (const bytes of [
    'garbage\r\n\r\n',
    'GET /products HTTP/9.9\r\n\r\n',
    'GET /pro ducts HTTP/1.1\r\nHost: x\r\n\r\n',
    'POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n',
    'POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'GET /products HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n',
    Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]),
  ]) {
    assertProblem(await sendRaw(bytes), 400, 'malformed_request', String(bytes))
  }
})

test('refuses headers that are too large', async () => {
  assertProblem(await sendRaw(`GET /products HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`), 431, 'malformed_request')
})

test('refuses a chunked body over the limit', async () => {
  const head = `POST /orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ada.token}\r\nContent-Type: application/json\r\n`
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
  const answer = await sendRaw(`${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(20)}0\r\n\r\n`)
  assertProblem(answer, 413, 'payload_too_large')
})

test('places no order when the body breaks off', async () => {
  const lamp = await store.addProduct({ stock: 3 })
  const body = JSON.stringify({ items: [{ product_id: lamp.id, quantity: 1 }] })
  const head = `POST /orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ada.token}\r\nContent-Type: application/json\r\n`
  const refused = new Promise<void>((resolve) => store.server.server.once('request', (request) => request.once('close', () => resolve())))
  const socket = await openSocket()
  socket.on('error', () => {})
  // The part that arrives is a whole order by itself.
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

test('tells the client nothing about a fault of ours, and the log everything', async (t) => {
  const lines: string[] = []
  const logger = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) })
  const server = await createHttpServer({ logger, baseUrl: 'http://localhost' })
  t.after(() => server.close())
  server.get('/throws', async () => {
    throw new Error('password=hunter2 in select * from users')
  })
  server.get('/database', async () => {
    throw Object.assign(new Error('duplicate key value hunter2'), { code: '23505', constraint: 'no_such', detail: 'hunter2' })
  })
  server.get('/row', async () => {
    await store.pool.query('insert into rate_limits (key, points) values ($1, 1), ($1, 1)', ['hunter2@example.com'])
  })
  server.get('/status', async () => {
    throw Object.assign(new Error('hunter2'), { statusCode: 502 })
  })
  server.get('/text', async () => {
    throw 'hunter2'
  })
  server.get('/null', async () => Promise.reject(null))
  for (const path of ['/throws', '/database', '/row', '/status', '/text', '/null']) {
    lines.length = 0
    const { statusCode, headers, body } = await server.inject(path)
    const problem = assertProblem({ status: statusCode, headers: headers as Record<string, string>, text: body }, 500, 'internal', path)
    assert.doesNotMatch(body, /hunter2|users|23505/, path)
    assert.deepEqual(Object.keys(problem).sort(), ['code', 'detail', 'request_id', 'status', 'title', 'type'])
    assert.equal(lines.length, 1, path)
    assert.equal(JSON.parse(lines[0] ?? '').request_id, problem.request_id)
    if (path === '/row') assert.doesNotMatch(lines[0] ?? '', /hunter2/)
  }
})

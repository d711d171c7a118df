import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { collectLog } from '../../test/logs.ts'
import { exchange } from '../../test/raw-http.ts'
import { RequestLog } from './request-log.ts'
import { createHttpServer, requestId } from './server.ts'
import { addShortcut } from './shortcut.ts'

const { logger, entries: lines } = collectLog()
const requestLog = new RequestLog(logger)
const authenticate = () => Promise.reject(new Error('unused'))
const server = await createHttpServer({ logger, requestLog, baseUrl: 'http://localhost', authenticate })
server.get('/page', { config: { access: 'public', cost: 'memory' } }, async () => 'the usual way')
const shortcut = (_request: unknown, response: import('node:http').ServerResponse) => {
  response.end('from memory')
  return { route: '/page', status: 200 }
}
addShortcut(server, shortcut, { requestLog, requestIdOf: requestId })
await server.listen({ host: '127.0.0.1', port: 0 })
after(() => server.close())

const SECOND = 'GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
const waysOf = (text: string) => text.match(/from memory|the usual way/g)

test('answers requests without a body from memory', async () => {
  for (const headers of ['', 'Content-Length: 0\r\n']) {
    const answers = await exchange({ server }, `GET /page HTTP/1.1\r\nHost: a\r\n${headers}\r\n${SECOND}`)
    assert.deepEqual(waysOf(answers), ['from memory', 'from memory'], headers)
  }
})

test('leaves a request with a body to Fastify, and never reads its bytes as the next request', async () => {
  const inner = 'GET /page HTTP/1.1\r\nHost: b\r\n\r\n'
  for (const [headers, body] of [
    [`Content-Length: ${inner.length}\r\n`, inner],
    ['Transfer-Encoding: chunked\r\n', `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`],
  ] as const) {
    const answers = await exchange({ server }, `GET /page HTTP/1.1\r\nHost: a\r\n${headers}\r\n${body}${SECOND}`)
    assert.deepEqual(waysOf(answers), ['the usual way', 'from memory'], headers)
  }
})

test('leaves a request with two hosts to Fastify, which refuses it', async () => {
  const answers = await exchange({ server }, 'GET /page HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n')
  assert.match(answers, /^HTTP\/1\.1 400 /)
  assert.equal(waysOf(answers), null)
})

test('logs an answer from memory like an answer from Fastify', async () => {
  lines.length = 0
  const body = 'Content-Length: 2\r\n\r\n{}'
  await exchange({ server }, `GET /page HTTP/1.1\r\nHost: a\r\n\r\nGET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${body}`)
  const logged = lines.filter(({ msg }) => msg === 'request')
  assert.deepEqual(
    logged.map(({ request_id, trace_id, method, route, status }) => [typeof request_id, typeof trace_id, method, route, status]),
    Array(2).fill(['string', 'string', 'GET', '/page', 200]),
  )
})

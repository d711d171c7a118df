import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { limitConnections } from './limit-connections.ts'
import { RequestLog } from './request-log.ts'
import { createHttpServer, requestId } from './server.ts'
import { addShortcut } from './shortcut.ts'

const logger = pino({ level: 'silent' })
const server = await createHttpServer({ logger, baseUrl: 'http://localhost', authenticate: () => Promise.reject(new Error('unused')) })
let asked = 0
server.get('/page', { config: { access: 'public', cost: 'memory' } }, async () => {
  asked++
  return 'x'.repeat(1_000)
})
addShortcut(server, () => null, { requestLog: new RequestLog(logger), requestIdOf: requestId })
limitConnections(server, {})
await server.listen({ host: '127.0.0.1', port: 0 })
after(() => server.close())

const REQUEST = 'GET /page HTTP/1.1\r\nHost: a\r\n\r\n'

/** Sends requests in one write, and reads until the connection ends or all are answered. */
async function pipeline(requests: number): Promise<number> {
  const socket = connect((server.server.address() as AddressInfo).port, '127.0.0.1')
  await once(socket, 'connect')
  let text = ''
  const closed = once(socket, 'close')
  socket.on('error', () => {})
  socket.setEncoding('latin1').on('data', (part) => {
    text += part
    if (countAnswers(text) === requests) socket.end()
  })
  socket.write(REQUEST.repeat(requests))
  await closed
  return countAnswers(text)
}

function countAnswers(text: string): number {
  return text.split('HTTP/1.1 200').length - 1
}

test('answers a client that pipelines a few requests', async () => {
  assert.equal(await pipeline(50), 50)
})

test('ends a connection with too many unanswered requests, and handles no request past the limit', async () => {
  const before = asked
  assert.ok((await pipeline(1_000)) < 1_000)
  assert.ok(asked - before <= 64, String(asked - before))
})

test('counts for each connection, and removes answered requests from the count', async () => {
  assert.deepEqual(await Promise.all(Array.from({ length: 4 }, () => pipeline(60))), [60, 60, 60, 60])
  const socket = connect((server.server.address() as AddressInfo).port, '127.0.0.1')
  socket.setEncoding('latin1')
  for (let turn = 0; turn < 200; turn++) {
    socket.write(REQUEST)
    for (let text = ''; !text.endsWith('x'.repeat(1_000)); ) text += (await once(socket, 'data'))[0]
  }
  socket.destroy()
})

test('ends the connection of a client that continues to send a body after the refusal', async () => {
  for (const headers of ['Transfer-Encoding: chunked', 'Content-Length: 100000']) {
    const socket = connect((server.server.address() as AddressInfo).port, '127.0.0.1')
    socket.on('error', () => {})
    let text = ''
    socket.setEncoding('latin1').on('data', (part) => {
      text += part
    })
    socket.write(`POST /nope HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n1\r\na\r\n`)
    await once(socket, 'close')
    assert.match(text, /^HTTP\/1\.1 404 [\s\S]*\r\nconnection: close\r\n/i, headers)
  }
})

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { addBuyer } from '../../test/buyers.ts'
import { eventually } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { openSocket } from '../../test/raw-http.ts'
import { startStore } from '../../test/store.ts'

const { logger, lines } = collectLog()
const store = await startStore({ after }, { logger, loggedRequests: 'all' })
const operator = await addBuyer(store, 'admin')
const ERROR = pino.levels.values.error ?? 50

/** Sends the beginning of a body, and disconnects while the server reads it. Returns the request's log lines. */
async function breakOff(path: string, headers: readonly string[], beginning: string, isReset: boolean) {
  lines.length = 0
  const socket = await openSocket(store)
  const head = [`POST ${path} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${operator.token}`, ...headers]
  const received = once(store.server.server, 'request')
  socket.write(`${head.join('\r\n')}\r\n\r\n${beginning}`)
  const [request] = await received
  await eventually(async () => request.socket.bytesRead > head.join('\r\n').length + beginning.length, {
    what: 'the beginning of the body',
  })
  if (isReset) socket.resetAndDestroy()
  else socket.destroy()
  await once(request, 'close').catch(() => {})
  const entries = () => lines.map((line) => JSON.parse(line))
  // Log lines are in order, so this request's line comes after the aborted request's.
  await store.call('GET', '/livez')
  await eventually(async () => entries().some((entry) => entry.route === '/livez'), { what: 'a later line of the log' })
  return entries()
}

const JSON_TYPE = 'Content-Type: application/json'
const NDJSON_TYPE = 'Content-Type: application/x-ndjson'
const LINE = `${JSON.stringify({ sku: 'a', name: 'A', category: 'a', price: { amount: 1, currency: 'EUR' } })}\n`

test('a client that aborts an upload causes neither an error nor a database outage in the log', async () => {
  for (const isReset of [false, true]) {
    for (const [path, type, beginning] of [
      ['/orders', JSON_TYPE, '{"items":'],
      ['/admin/orders/transitions', NDJSON_TYPE, '{"order_id":'],
      ['/admin/products/import', NDJSON_TYPE, LINE],
    ] as const) {
      for (const length of ['Content-Length: 1000', 'Transfer-Encoding: chunked']) {
        const part = length.startsWith('T') ? `${beginning.length.toString(16)}\r\n${beginning}\r\n` : beginning
        const entries = await breakOff(path, [type, length], part, isReset)
        const context = JSON.stringify(entries)
        assert.ok(
          entries.every(({ level }) => level < ERROR),
          context,
        )
        assert.ok(
          entries.every(({ status = 0 }) => status < 500),
          context,
        )
      }
    }
  }
})

test('bytes that belong to no body end a started answer without writing a second one into it', async () => {
  const refused = '{}\n'.repeat(2_000)
  const socket = await openSocket(store)
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
  })
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  const head = ['POST /admin/products/import HTTP/1.1', 'Host: a', `Authorization: Bearer ${operator.token}`, NDJSON_TYPE]
  socket.write(`${[...head, 'Transfer-Encoding: chunked'].join('\r\n')}\r\n\r\n${refused.length.toString(16)}\r\n${refused}\r\n`)
  await eventually(async () => text.includes('"line":1'), { what: 'the beginning of the answer' })
  socket.write('no chunk\r\n')
  await closed
  assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1, text.slice(-500))
})

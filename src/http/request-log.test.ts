import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collectLog } from '../../test/logs.ts'
import { type LoggedRequests, RequestLog } from './request-log.ts'

function record(logged: LoggedRequests, level = 'info') {
  const { logger, entries: lines } = collectLog(level)
  const log = new RequestLog(logger, logged)
  const add = (method: string, status = 200, ms = 1) =>
    log.add({ method, route: '/products', status, ms }, () => ({ request_id: 'a', trace_id: 'b' }))
  return { lines, add }
}

test('logs each request that fails, changes something or is slow, and one in 100 of the others', () => {
  const { lines, add } = record('notable')
  for (let i = 0; i < 200; i++) add(i % 2 === 0 ? 'GET' : 'HEAD', i % 3 === 0 ? 304 : 200)
  assert.equal(lines.splice(0).length, 2)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) add(method)
  for (const status of [400, 404, 503]) add('GET', status)
  add('GET', 200, 501.4)
  assert.deepEqual(
    lines.map(({ method, status, ms }) => [method, status, ms]),
    [
      ...['POST', 'PUT', 'PATCH', 'DELETE'].map((method) => [method, 200, 1]),
      ...[400, 404, 503].map((s) => ['GET', s, 1]),
      ['GET', 200, 501],
    ],
  )
  assert.partialDeepStrictEqual(lines[0], { request_id: 'a', trace_id: 'b', route: '/products', msg: 'request' })
})

test('logs every request if set to, and none above the log level', () => {
  const { lines, add } = record('all')
  for (let i = 0; i < 5; i++) add('GET')
  assert.equal(lines.length, 5)
  const quiet = record('all', 'warn')
  quiet.add('POST', 500)
  assert.equal(quiet.lines.length, 0)
})

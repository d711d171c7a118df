import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { readDatabaseId } from '../src/db/database-id.ts'
import { onCleanup } from './cleanup.ts'
import { createTestDatabase } from './database.ts'
import { assertFinding, examine } from './doctor-harness.ts'
import { freePorts } from './free-port.ts'
import { startHangingServer } from './hanging-server.ts'

async function startProcess(
  t: Parameters<typeof onCleanup>[0],
  port: number,
  { metrics, readiness }: { metrics: string; readiness: object },
) {
  const server = createServer(({ url }, response) => response.end(url === '/metrics' ? metrics : JSON.stringify(readiness)))
  await once(server.listen(port, '127.0.0.1'), 'listening')
  onCleanup(t, () => void server.close())
  return server
}

test('the process at the operations port is asked, and one that hangs is named', async (t) => {
  const [ready = 0, hung = 0] = await freePorts(2)
  await startHangingServer(t, hung)
  const first = await startProcess(t, ready, { metrics: 'storefront_clock_difference_seconds -18000\n', readiness: { status: 'ok' } })
  const look = (port: number, timeoutMs = 10_000) => examine({ OPS_PORT: String(port), EMBEDDED: 'on' }, { timeoutMs })
  const findings = await look(ready)
  assertFinding(findings, 'process', 'ok', new RegExp(`at 127\\.0\\.0\\.1:${ready} is ready$`))
  assertFinding(
    findings,
    'clock',
    'problem',
    new RegExp(`^the process at 127\\.0\\.0\\.1:${ready} and the database differ by 18000\\.0 s$`),
  )
  const remedy = new RegExp(`at 127\\.0\\.0\\.1:${hung}, and restart it$`)
  assertFinding(await look(hung, 2_000), 'process', 'problem', /^no answer within 2 s$/, remedy)
  first.close()
  const stopped = await look(ready)
  assert.deepEqual(
    stopped.flatMap(({ check, status }) => (check === 'process' ? [status] : [])),
    ['warning'],
  )
})

test('of several processes that answer at one port, the one that fails is named', async (t) => {
  const [port = 0] = await freePorts(1)
  const clocks = [1, 2].map((process) => `storefront_clock_difference_seconds{process="${process}"} ${process === 2 ? 18_000 : 0}`)
  const proxies = [1, 2].map((process) => `storefront_untrusted_proxy_requests_total{process="${process}"} ${process}`)
  const failing = [
    { name: 'lake', reason: 'the disk is full', process: 2 },
    { name: 'process_3', reason: 'process 3 (api) is starting' },
  ]
  await startProcess(t, port, { metrics: [...clocks, ...proxies, ''].join('\n'), readiness: { status: 'unavailable', failing } })
  const findings = await examine({ OPS_PORT: String(port), EMBEDDED: 'on' }, { timeoutMs: 10_000 })
  assert.deepEqual(
    findings.flatMap(({ check, status, found }) => (check === 'process' ? [`${status}: ${found}`] : [])),
    [
      `problem: lake at 127.0.0.1:${port}, process 2: the disk is full`,
      `problem: process_3 at 127.0.0.1:${port}: process 3 (api) is starting`,
    ],
  )
  assertFinding(findings, 'clock', 'problem', new RegExp(`^process 2 at 127\\.0\\.0\\.1:${port} and the database differ by 18000\\.0 s$`))
  assertFinding(findings, 'proxies', 'warning', /has forwarded 3 requests/)
})

test('what fails is named although the metrics are late', async (t) => {
  const [port = 0] = await freePorts(1)
  const failing = [{ name: 'process_2', reason: 'process 2 (api) does not answer' }]
  const server = createServer(({ url }, response) => {
    if (url === '/readyz') response.end(JSON.stringify({ status: 'unavailable', failing }))
  })
  await once(server.listen(port, '127.0.0.1'), 'listening')
  onCleanup(t, () => void server.close().closeAllConnections())
  const findings = await examine({ OPS_PORT: String(port), EMBEDDED: 'on' }, { timeoutMs: 2_000 })
  assertFinding(findings, 'process', 'problem', /^process_2 at \S+: process 2 \(api\) does not answer$/)
  assertFinding(findings, 'process', 'warning', /^\/metrics at \S+ does not answer/)
})

test('the process of another store that has the port is not taken for its own', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const [port = 0] = await freePorts(1)
  let database = await readDatabaseId(pool)
  const process = createServer((_request, response) => void response.end(JSON.stringify({ status: 'ok', database }))).listen(
    port,
    '127.0.0.1',
  )
  await once(process, 'listening')
  onCleanup(t, () => void process.close())
  const look = () => examine({ DATABASE_URL: url, OPS_PORT: String(port) })
  assertFinding(await look(), 'process', 'ok', /is ready$/)
  database = '7.5'
  assertFinding(
    await look(),
    'process',
    'warning',
    new RegExp(`at 127\\.0\\.0\\.1:${port} belongs to another store$`),
    /^start this store with an OPS_PORT of its own/,
  )
})

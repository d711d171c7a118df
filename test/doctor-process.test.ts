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

test('each process of the API is asked at its own port, and one that hangs is named', async (t) => {
  const [ready = 0, hung = 0] = await freePorts(2)
  await startHangingServer(t, hung)
  const first = createServer(({ url }, response) =>
    response.end(url === '/metrics' ? 'storefront_clock_difference_seconds -18000\n' : '{"status":"ok"}'),
  ).listen(ready, '127.0.0.1')
  await once(first, 'listening')
  onCleanup(t, () => void first.close())
  const env = { OPS_PORT: String(ready), WEB_CONCURRENCY: '2', EMBEDDED: 'on' }
  const findings = await examine(env, { timeoutMs: 2_000 })
  assertFinding(findings, 'process', 'ok', new RegExp(`at 127\\.0\\.0\\.1:${ready} is ready$`))
  assertFinding(
    findings,
    'clock',
    'problem',
    new RegExp(`^the process at 127\\.0\\.0\\.1:${ready} and the database differ by 18000\\.0 s$`),
  )
  assertFinding(findings, 'process', 'problem', /^no answer within 2 s$/, new RegExp(`at 127\\.0\\.0\\.1:${hung}, and restart it$`))
  first.close()
  const stopped = await examine(env, { timeoutMs: 2_000 })
  assert.deepEqual(
    stopped.flatMap(({ check, status }) => (check === 'process' ? [status] : [])),
    ['warning'],
  )
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

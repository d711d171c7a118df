import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { onCleanup } from './cleanup.ts'
import { assertFinding, examine, openHungPort } from './doctor-harness.ts'
import { freePorts } from './free-port.ts'

test('each process of the API is asked at its own port, and one that hangs is named', async (t) => {
  const [ready = 0, hung = 0] = await freePorts(2)
  await openHungPort(t, hung)
  const first = createServer((_request, response) => void response.end('{"status":"ok"}')).listen(ready, '127.0.0.1')
  await once(first, 'listening')
  onCleanup(t, () => void first.close())
  const env = { OPS_PORT: String(ready), WEB_CONCURRENCY: '2', EMBEDDED: 'on' }
  const findings = await examine(env, { timeoutMs: 2_000 })
  assertFinding(findings, 'process', 'ok', new RegExp(`at 127\\.0\\.0\\.1:${ready} is ready$`))
  assertFinding(findings, 'process', 'problem', /^no answer within 2 s$/, new RegExp(`at 127\\.0\\.0\\.1:${hung}, and restart it$`))
  first.close()
  const stopped = await examine(env, { timeoutMs: 2_000 })
  assert.deepEqual(
    stopped.flatMap(({ check, status }) => (check === 'process' ? [status] : [])),
    ['warning'],
  )
})

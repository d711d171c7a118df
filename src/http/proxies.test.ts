import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertFinding, examine } from '../../test/doctor-harness.ts'
import { freePort } from '../../test/free-port.ts'
import { collectLog } from '../../test/logs.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

function recordingLogger() {
  const { logger, entries: lines } = collectLog<{ level: number; msg: string; peer?: string; header?: string; address?: string }>('warn')
  return { logger, lines }
}

test('reports an untrusted proxy once in the log, in doctor and in a metric, whatever BASE_URL is', async (t) => {
  for (const [baseUrl, trustProxy] of [
    ['http://localhost:3000', false],
    ['https://shop.example', ['10.0.0.0/8']],
  ] as const) {
    const { logger, lines } = recordingLogger()
    const port = await freePort()
    const operations = { host: '127.0.0.1', port, isRequired: true }
    const store = await startStore(t, { baseUrl, trustProxy, logger, operations })
    const env = { OPS_PORT: String(port), EMBEDDED: 'on' }
    assertFinding(await examine(env, { timeoutMs: 5_000 }), 'process', 'ok', /is ready$/)
    for (let request = 0; request < 3; request++) {
      await store.call('GET', '/nowhere', { headers: { 'x-forwarded-for': '203.0.113.9' }, from: '192.0.2.1' })
      await store.call('GET', '/nowhere')
    }
    const warnings = lines.filter(({ msg }) => /TRUST_PROXY/.test(msg))
    assert.deepEqual(
      warnings.map(({ peer }) => peer),
      ['192.0.2.1'],
    )
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    assert.match(metrics, /^storefront_untrusted_proxy_requests_total 3$/m)
    assertFinding(await examine(env, { timeoutMs: 5_000 }), 'proxies', 'warning', /has forwarded 3 requests/, /set TRUST_PROXY/)
  }
})

test('logs once that a trusted proxy names no client, and refuses requests that need one', async (t) => {
  const { logger, lines } = recordingLogger()
  const store = await startStore(t, { trustProxy: 1, logger })
  for (const address of ['unknown', '_hidden', '']) {
    const headers = { 'x-forwarded-for': address }
    assertProblem(await store.call('POST', '/auth/guest', { body: { email: 'a@example.com' }, headers }), 400, 'malformed_request', address)
    assertProblem(await store.call('GET', '/feeds/products.ndjson', { headers }), 400, 'malformed_request', address)
  }
  assert.deepEqual(
    lines.flatMap(({ header, address }) => (header === undefined ? [] : [[header, address]])),
    [['X-Forwarded-For', 'unknown']],
  )
  const headers = { 'x-forwarded-for': '198.51.100.7:41234' }
  await store.ok('POST', '/auth/guest', { body: { email: 'a@example.com' }, headers })
})

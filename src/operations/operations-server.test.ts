import assert from 'node:assert/strict'
import { get } from 'node:http'
import { networkInterfaces } from 'node:os'
import { test } from 'node:test'
import pino from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { collectLog } from '../../test/logs.ts'
import { Metrics } from './metrics.ts'
import { OperationsServer } from './operations-server.ts'

const common = {
  host: '127.0.0.1',
  port: 0,
  isRequired: true,
  database: '7.5',
  metrics: new Metrics(pino({ level: 'silent' })),
  logger: pino({ level: 'silent' }),
  isOwnHost: (host?: string) => host !== 'evil.example',
}

test('is ready only between the start and the stop of everything else, and is always alive', async (t) => {
  const failing: { name: string; reason: string }[] = []
  const server = new OperationsServer({ ...common, check: async () => failing })
  onCleanup(t, () => server.stop())
  assert.equal(server.port, null)
  await server.stop()
  await server.start()
  const ask = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`)
    return [response.status, ((await response.json()) as { failing?: { reason: string }[] }).failing?.[0]?.reason]
  }
  assert.deepEqual(await ask('/readyz'), [503, 'the process is starting'])
  server.phase = 'started'
  assert.deepEqual(await ask('/readyz'), [200, undefined])
  failing.push({ name: 'lake', reason: 'the disk is full' })
  assert.deepEqual(await ask('/readyz'), [503, 'the disk is full'])
  server.phase = 'stopping'
  assert.deepEqual(await ask('/readyz'), [503, 'the process is stopping'])
  assert.deepEqual(await ask('/livez'), [200, undefined])
  await Promise.all([server.stop(), server.stop()])
})

test('for localhost it also answers at the IPv6 address, until it stops', async (t) => {
  const server = new OperationsServer({ ...common, host: 'localhost', check: async () => [] })
  onCleanup(t, () => server.stop())
  await server.start()
  const { port } = server
  const hosts = networkInterfaces().lo?.some(({ address }) => address === '::1') ? ['127.0.0.1', '[::1]'] : ['127.0.0.1']
  for (const host of hosts) assert.equal((await fetch(`http://${host}:${port}/livez`)).status, 200)
  await server.stop()
  for (const host of hosts) await assert.rejects(fetch(`http://${host}:${port}/livez`))
})

test('answers and logs a failed check, and does not end the process', async (t) => {
  const { logger, lines } = collectLog()
  const server = new OperationsServer({ ...common, logger, check: () => Promise.reject(new Error('no such luck')) })
  onCleanup(t, () => server.stop())
  await server.start()
  server.phase = 'started'
  assert.equal((await fetch(`http://127.0.0.1:${server.port}/readyz`)).status, 500)
  assert.match(lines.join(), /no such luck/)
  assert.equal((await fetch(`http://127.0.0.1:${server.port}/livez`)).status, 200)
})

test('refuses requests with the name of another site', async (t) => {
  const server = new OperationsServer({ ...common, check: async () => [] })
  onCleanup(t, () => server.stop())
  await server.start()
  for (const path of ['/livez', '/readyz', '/metrics', '/nope']) {
    const status = await new Promise((resolve, reject) => {
      const asked = { port: server.port, host: '127.0.0.1', path, headers: { host: 'evil.example' } }
      get(asked, (answer) => resolve(answer.resume().statusCode)).on('error', reject)
    })
    assert.equal(status, 421, path)
  }
})

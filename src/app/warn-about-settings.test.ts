import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createTestDatabase } from '../../test/database.ts'
import { collectLog } from '../../test/logs.ts'
import { readConfig } from '../config.ts'
import { findUnsuitableSettings, warnAboutServer } from './warn-about-settings.ts'

test('warns of an API that may open fewer files than it can have connections', () => {
  const config = readConfig({ MAX_CONNECTIONS: '1000', DATABASE_POOL_SIZE: '20' })
  assert.deepEqual(findUnsuitableSettings(config, 1_279), [])
  assert.deepEqual(findUnsuitableSettings(config, 1_278), [
    'a process may open 1278 files and connections, and MAX_CONNECTIONS=1000 needs 1279: raise the limit (ulimit -n, LimitNOFILE) or set MAX_CONNECTIONS to a smaller number',
  ])
  assert.deepEqual(findUnsuitableSettings(readConfig({ ROLES: 'email' }), 100), [])
})

test("the limit is the process's own", { skip: process.platform === 'linux' ? false : 'needs /proc' }, () => {
  const bin = fileURLToPath(new URL('../../bin/storefront.mjs', import.meta.url))
  const doctor = `ulimit -n 4321 && '${process.execPath}' '${bin}' doctor --json`
  const env = { PATH: process.env.PATH, DATA_DIR: '/nonexistent', OPS_PORT: 'off' }
  assert.match(execFileSync('sh', ['-c', doctor], { env, encoding: 'utf8' }), /a process may open 4321 files and connections/)
})

test('warns of a page for orders without TLS', () => {
  const warningsFor = (url: string) => findUnsuitableSettings(readConfig({ SHOP_ORDER_URL: url, ROLES: 'email' }))
  for (const url of ['https://shop.example/order', 'http://localhost:8080/order']) assert.deepEqual(warningsFor(url), [])
  assert.deepEqual(warningsFor('http://shop.example/order'), [
    'SHOP_ORDER_URL starts with http://, so the network can change the page that gets tokens of orders: use https://',
  ])
})

test('warns of the port of a receiver that takes gRPC', () => {
  const warningsFor = (endpoint: string) => findUnsuitableSettings(readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ROLES: 'email' }))
  assert.deepEqual(warningsFor('http://collector:4318'), [])
  assert.deepEqual(warningsFor('http://collector:4317'), [
    'port 4317 of an OTLP receiver takes gRPC, which the store does not speak: set the endpoint to its port for HTTP, 4318',
  ])
})

test('warns of a server with too few connections for all processes of the start', async (t) => {
  const { pool } = await createTestDatabase(t)
  const { logger, lines } = collectLog()
  await warnAboutServer(pool, { config: readConfig({}), connections: 100_000, logger })
  const warnings = lines.map((line) => JSON.parse(line).msg as string).filter((message) => message.includes('max_connections'))
  assert.equal(warnings.length, 1)
  assert.match(warnings[0] ?? '', /this start alone opens up to 100000: raise it/)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from '../config.ts'
import { connectionsOfStart, processConfigs } from './process-configs.ts'

function rolesOf(env: Record<string, string>): [string, number | undefined][] {
  return processConfigs(readConfig(env)).map(({ roles, operations }) => [roles.join(), operations?.port])
}

test('one process has every role; of several, the last one has the pipeline and the first one the operations port', () => {
  assert.deepEqual(rolesOf({}), [['api,stream,email,lake,webhook', 9464]])
  assert.deepEqual(rolesOf({ WEB_CONCURRENCY: '2' }), [
    ['api', 9464],
    ['stream,email,lake,webhook', undefined],
  ])
  assert.deepEqual(rolesOf({ WEB_CONCURRENCY: '3', OPS_PORT: '0' }), [
    ['api', 0],
    ['api', undefined],
    ['stream,email,lake,webhook', undefined],
  ])
})

test('chosen roles stay: only the API has several processes, and they know their number', () => {
  const url = { DATABASE_URL: 'postgres://localhost/shop', STOREFRONT_SECRET: 'a secret that is long enough for this' }
  assert.deepEqual(rolesOf({ ...url, WEB_CONCURRENCY: '2', ROLES: 'api', OPS_PORT: 'off' }), [
    ['api', undefined],
    ['api', undefined],
  ])
  assert.deepEqual(rolesOf({ ...url, WEB_CONCURRENCY: '4', ROLES: 'email,lake' }), [['email,lake', 9464]])
  assert.deepEqual(
    processConfigs(readConfig({ WEB_CONCURRENCY: '3' })).map(({ webConcurrency }) => webConcurrency),
    [2, 2, 1],
  )
})

test('counts the connections of all processes of a start', () => {
  const count = (env: Record<string, string>) => connectionsOfStart(readConfig(env))
  assert.deepEqual([count({}), count({ WEB_CONCURRENCY: '2' }), count({ WEB_CONCURRENCY: '3', DATABASE_POOL_SIZE: '4' })], [19, 31, 29])
  assert.equal(count({ WEB_CONCURRENCY: '4' }), 63)
})

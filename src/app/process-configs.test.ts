import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from '../config.ts'
import { connectionsOfStart, processConfigs } from './process-configs.ts'

const GIB = 2 ** 30

function rolesOf(env: Record<string, string>, cores = 2, memory = 8 * GIB): [string, number | undefined][] {
  return processConfigs(readConfig(env), { cores, memory }).map(({ roles, operations }) => [roles.join(), operations?.port])
}

test('one process has every role; of several, the last one has the pipeline and the first one the operations port', () => {
  assert.deepEqual(rolesOf({ WEB_CONCURRENCY: '1' }, 8), [['api,stream,email,lake,webhook', 9464]])
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

test('without the setting the pipeline has its own process where there are two cores and a GiB', () => {
  const url = { DATABASE_URL: 'postgres://localhost/shop', STOREFRONT_SECRET: 'a secret that is long enough for this' }
  const both = [
    ['api', 9464],
    ['stream,email,lake,webhook', undefined],
  ]
  assert.deepEqual([rolesOf({}, 2, GIB), rolesOf({}, 64)], [both, both])
  for (const few of [rolesOf({}, 1), rolesOf({}, 8, GIB - 1)]) assert.deepEqual(few, [['api,stream,email,lake,webhook', 9464]])
  for (const roles of ['api', 'stream,email']) assert.deepEqual(rolesOf({ ...url, ROLES: roles }, 8), [[roles, 9464]])
  assert.deepEqual(rolesOf({ WEB_CONCURRENCY: '2' }, 1), both)
})

test('chosen roles stay: only the API has several processes, and they know their number', () => {
  const url = { DATABASE_URL: 'postgres://localhost/shop', STOREFRONT_SECRET: 'a secret that is long enough for this' }
  assert.deepEqual(rolesOf({ ...url, WEB_CONCURRENCY: '2', ROLES: 'api', OPS_PORT: 'off' }), [
    ['api', undefined],
    ['api', undefined],
  ])
  assert.deepEqual(rolesOf({ ...url, WEB_CONCURRENCY: '4', ROLES: 'email,lake' }), [['email,lake', 9464]])
  assert.deepEqual(
    processConfigs(readConfig({ WEB_CONCURRENCY: '3' })).map(({ apiProcesses }) => apiProcesses),
    [2, 2, 1],
  )
})

test('counts the connections of all processes of a start', () => {
  const count = (env: Record<string, string>) => connectionsOfStart(readConfig(env))
  assert.deepEqual(
    [count({ WEB_CONCURRENCY: '1' }), count({ WEB_CONCURRENCY: '2' }), count({ WEB_CONCURRENCY: '3', DATABASE_POOL_SIZE: '4' })],
    [19, 31, 29],
  )
  assert.equal(count({ WEB_CONCURRENCY: '4' }), 63)
})

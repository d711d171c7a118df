import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainRefusal } from './connection-refusal.ts'
import { isDatabaseOutage } from './failures.ts'

test('classifies temporary failures as outages: a server that is unavailable, restarting, full or being replaced', () => {
  const codes = [
    '08006',
    '57P01',
    '57P03',
    '53300',
    '53100',
    '25006',
    'ECONNREFUSED',
    'EAI_AGAIN',
    'ENOTFOUND',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'EMFILE',
    'ENFILE',
    '28000',
    '28P01',
    '3D000',
  ]
  for (const code of codes) assert.ok(isDatabaseOutage(Object.assign(new Error(''), { code })), code)
  assert.ok(isDatabaseOutage(Object.assign(new Error(''), { code: '55000', severity: 'FATAL' })), 'a database that takes no connections')
  assert.ok(isDatabaseOutage(Object.assign(new Error(''), { code: 'ENOENT', syscall: 'connect' })))
  assert.ok(!isDatabaseOutage(Object.assign(new Error(''), { code: 'ENOENT', syscall: 'open' })), 'a file that is missing')
  // What the driver says by itself, such as after this process stood still.
  for (const message of [
    'Connection terminated unexpectedly',
    'timeout exceeded when trying to connect',
    'timeout expired',
    'Query read timeout',
    'Client was closed and is not queryable',
    'Client has encountered a connection error and is not queryable',
  ])
    assert.ok(isDatabaseOutage(new Error(message)), message)
})

test("a start distinguishes a pooler's lasting refusal of a login from its outages with the same SQLSTATE", () => {
  const fatal = (message: string) => Object.assign(new Error(message), { code: '08P01', severity: 'FATAL' })
  for (const message of [
    'password authentication failed for user "shop"',
    'SASL authentication failed',
    'server login has been failing, cached error: password authentication failed for user "shop" (server_login_retry)',
    'no such database: shop',
    'no such user: shop',
  ]) {
    assert.ok(isDatabaseOutage(fatal(message)), message)
    assert.equal(explainRefusal(fatal(message), 'DATABASE_URL'), `the database cannot be used: ${message}; check DATABASE_URL`)
  }
  for (const message of [
    'server login has been failing, cached error: connect failed (server_login_retry)',
    'query_wait_timeout',
    'pgbouncer cannot connect to server',
  ]) {
    assert.ok(isDatabaseOutage(fatal(message)), message)
    assert.equal(explainRefusal(fatal(message), 'DATABASE_URL'), null)
  }
})

test("does not classify the store's own faults as outages", () => {
  for (const code of ['42601', '42P01', '23505', '22P02', '40001', 'ERR_INVALID_ARG_TYPE']) {
    assert.ok(!isDatabaseOutage(Object.assign(new Error('Connection terminated'), { code })), code)
  }
  for (const error of [null, undefined, 'text', {}, new Error('select 1')]) assert.ok(!isDatabaseOutage(error), String(error))
})

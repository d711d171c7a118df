import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { ACTIONS, actionText, differenceTexts } from '../console/screens/activity-text.ts'

const admin = { type: 'admin', id: '1' } as const
const system = { type: 'system', id: null } as const

test('the console has words for each change that a scope permits, and for no other call', () => {
  const { paths } = JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'))
  const operations = Object.values(paths as Record<string, Record<string, { operationId: string; 'x-required-scope'?: string }>>)
    .flatMap((methods) => Object.entries(methods))
    .filter(([method]) => method !== 'get')
    .map(([, operation]) => operation)
    // A quote changes nothing, and no activity records it.
    .filter(({ operationId }) => operationId !== 'quoteOrderForCustomer')
  const scoped = operations.filter((operation) => operation['x-required-scope'] !== undefined).map(({ operationId }) => operationId)
  assert.ok(scoped.length > 20)
  assert.deepEqual(
    scoped.filter((id) => ACTIONS[id] === undefined),
    [],
  )
  const ids = new Set(operations.map(({ operationId }) => operationId))
  assert.deepEqual(
    Object.keys(ACTIONS).filter((id) => !ids.has(id)),
    [],
  )
})

test('a command and a call of a later release have their own names', () => {
  assert.equal(actionText({ action: 'webhook add', actor: system }), 'ran “webhook add”')
  assert.equal(actionText({ action: 'doSomethingNew', actor: admin }), 'doSomethingNew')
  assert.equal(actionText({ action: 'setStock', actor: admin }), 'counted the stock')
})

test('states are written as what differs, in words', () => {
  assert.deepEqual(differenceTexts({ before: { stock: 7 }, after: { stock: 25 } }), ['stock: 7 → 25'])
  assert.deepEqual(differenceTexts({ before: { is_archived: false }, after: { is_archived: true } }), ['archived: no → yes'])
  assert.deepEqual(differenceTexts({ before: null, after: { scopes: ['orders:read', 'stock:read'] } }), ['scopes: orders:read, stock:read'])
  assert.deepEqual(differenceTexts({ before: { name: 'Lamp' }, after: null }), ['name: Lamp'])
  assert.deepEqual(
    differenceTexts({
      before: { price: { amount: 1_290, currency: 'EUR' }, attributes: {}, image_url: null },
      after: { price: { amount: 990, currency: 'EUR' }, attributes: { material: 'wood', is_new: true }, image_url: 'https://a.example/1' },
    }).map((text) => text.replaceAll(' ', ' ')),
    ['price: €12.90 → €9.90', 'attributes: none → material wood, is_new yes', 'image url: none → https://a.example/1'],
  )
  assert.deepEqual(differenceTexts({ before: null, after: null }), [])
})

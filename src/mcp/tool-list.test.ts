import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { makeKey } from '../../test/api-keys.ts'
import { connectAgent } from '../../test/mcp-agent.ts'
import { startStore } from '../../test/store.ts'
import { KEY_SCOPES } from '../http/scopes.ts'
import { EFFECTS, LEFT_OUT } from './tool-list.ts'

interface Operation {
  operationId: string
  method: string
  'x-required-scope'?: string
}

const PUBLIC = ['getProduct', 'listCategories', 'listProducts']
/** The tools that read. An operation that answers a secret belongs in LEFT_OUT instead. */
const READS = [
  ...['getAnyOrder', 'getAudit', 'getCategory', 'getCustomer', 'getEditedProduct', 'getFigures', 'getMail', 'getPipeline', 'getStock'],
  ...[
    'listActivities',
    'listAudits',
    'listEditedProducts',
    'listLakeTables',
    'listMailTemplates',
    'listMails',
    'listOrderNotes',
    'listPlacedProducts',
    'listProductPrices',
  ],
  ...['listStock', 'listStockAdjustments', 'listWebhookDeliveries', 'listWebhooks', 'previewMailTemplate'],
  ...[
    'getMailsToDo',
    'getProductGroup',
    'getOrdersToDo',
    'getStockToDo',
    'queryLake',
    'searchCustomers',
    'searchEverything',
    'searchOrders',
  ],
]

const text = readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8')
const document: { paths: Record<string, Record<string, Operation>> } = JSON.parse(text)
const operations = Object.values(document.paths).flatMap((item) =>
  Object.entries(item).map(([method, operation]) => ({ ...operation, method })),
)
const forKeys = operations.filter(({ 'x-required-scope': scope }) => (KEY_SCOPES as readonly (string | undefined)[]).includes(scope))
const store = await startStore({ after })

test('each operation that a key may call is a reading tool, a changing tool, or left out with a reason', () => {
  const names = forKeys.map(({ operationId }) => operationId).toSorted()
  assert.deepEqual([...READS, ...Object.keys(EFFECTS), ...Object.keys(LEFT_OUT)].toSorted(), names)
})

test('a key gets the tools of its scopes in both revisions of the protocol, and `commit` if one of them changes something', async (t) => {
  for (const [index, scope] of KEY_SCOPES.entries()) {
    const { key } = await makeKey(store, [scope])
    const expected = forKeys.filter((each) => each['x-required-scope'] === scope).map(({ operationId }) => operationId)
    const tools = expected.filter((name) => !Object.hasOwn(LEFT_OUT, name))
    const changes = tools.filter((name) => Object.hasOwn(EFFECTS, name))
    const mode = index % 2 === 0 ? 'legacy' : 'auto'
    const { client } = await connectAgent(t, store, key, mode)
    assert.equal(client.getNegotiatedProtocolVersion(), mode === 'auto' ? '2026-07-28' : '2025-11-25')
    const listed = (await client.listTools()).tools
    const changing = changes.length > 0 ? ['commit'] : []
    assert.deepEqual(listed.map(({ name }) => name).toSorted(), [...PUBLIC, ...tools, ...changing].toSorted(), scope)
    const writing = listed.filter(({ annotations }) => annotations?.readOnlyHint !== true)
    assert.deepEqual(
      writing.map(({ name }) => name),
      changing,
    )
  }
})

test('the tools of all scopes together are a short list, and none answers a secret', async (t) => {
  const { client } = await connectAgent(t, store, (await makeKey(store, KEY_SCOPES)).key)
  const { tools } = await client.listTools()
  assert.ok(JSON.stringify(tools).length < 80_000, `${JSON.stringify(tools).length}`)
  for (const { name, description = '' } of tools) assert.ok(description.length > 20 && description.length < 400, `${name}: ${description}`)
  const named = new Set(tools.map(({ name }) => name))
  const secret = operations.filter((operation) =>
    /"(?:secret|key|token|password|refresh_token)":/.test(JSON.stringify(answersOf(operation))),
  )
  assert.ok(secret.some(({ operationId }) => operationId === 'createWebhook'))
  assert.deepEqual(
    secret.map(({ operationId }) => operationId).filter((name) => named.has(name)),
    [],
  )
})

/** The schemas of an operation's answers, including referenced ones. */
function answersOf(operation: object): object {
  const { components } = JSON.parse(text) as { components: { schemas: Record<string, object> } }
  const names = new Set<string>()
  const addNamed = (schema: unknown): unknown => {
    for (const [, name = ''] of JSON.stringify(schema ?? {}).matchAll(/#\/components\/schemas\/(\w+)/g)) {
      if (names.has(name)) continue
      names.add(name)
      addNamed(components.schemas[name])
    }
    return schema
  }
  const { responses } = operation as { responses: Record<string, object> }
  const successes = Object.entries(responses).filter(([status]) => status.startsWith('2'))
  addNamed(successes)
  return [successes, [...names].map((name) => components.schemas[name])]
}

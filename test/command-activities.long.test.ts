import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { auditContextOfCommand } from '../src/activity/record-activity.ts'
import { createApiKey } from '../src/auth/api-keys/create-api-key.ts'
import { COMMANDS } from '../src/cli/commands.ts'
import { exampleMailContent } from '../src/mail/example-mail.ts'
import { aCustomer, anOrder } from './move-in-harness.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { runStorefront } from './store-process.ts'

const store = await startStore({ after }, { roles: ['api', 'stream'] })
const { api, stream, owner } = store.addresses
const env = {
  DATABASE_URL: api,
  DATABASE_STREAM_URL: stream,
  DATABASE_OWNER_URL: owner,
  STOREFRONT_SECRET: TEST_SECRET,
  DATA_DIR: store.config.dataDir,
  BASE_URL: 'https://other.example',
}

/** Arguments and standard input of a run that changes something. */
interface Run {
  args: string[]
  input?: string
}

const PRODUCT = () => ({ sku: `A-${randomUUID()}`, name: 'A mug', category: 'mugs', price: { amount: 900, currency: 'EUR' } })

const RUNS: Record<string, () => Promise<Run> | Run> = {
  'catalogue import': () => ({ args: ['-'], input: JSON.stringify(PRODUCT()) }),
  demo: () => ({ args: ['--fast', '--orders', '1'] }),
  'import customers': () => ({ args: [write('customers', aCustomer('ada', { address_proven: true }))] }),
  'import orders': () => ({ args: [write('orders', anOrder(5_000))] }),
  'lake maintain': () => ({ args: [] }),
  'lake repair': () => ({ args: [] }),
  'mail retry': async () => ({ args: [await failMail()] }),
  'webhook add': () => ({ args: ['https://shop.example/hook'] }),
  'webhook redeliver': async () => ({ args: [await failDelivery(), '--all-failed'] }),
  'webhook rotate': async () => ({ args: [await addEndpoint()] }),
  'webhook enable': async () => {
    const id = await addEndpoint()
    await store.pool.query(`update webhook_endpoints set disabled_at = now(), disabled_reason = 'gone' where id = $1`, [id])
    return { args: [id] }
  },
  'webhook remove': async () => ({ args: [await addEndpoint()] }),
  replay: () => ({ args: [] }),
  'admin create': () => ({ args: ['new@example.com'], input: 'the passphrase of the new one\n' }),
  'admin role': async () => ({ args: [await registerProven(), 'support'] }),
  'admin remove': async () => {
    const email = await registerProven()
    await store.pool.query(`update users set role = 'support' where email = $1`, [email])
    return { args: [email] }
  },
  'admin reset-factors': async () => ({ args: [await registerProven()] }),
  'keys create': () => ({ args: ['Scanner', '--scopes', 'stock:read'] }),
  'keys rotate': async () => ({ args: [await makeKey()] }),
  'keys revoke': async () => ({ args: [await makeKey()] }),
  'signing-keys rotate': () => ({ args: [] }),
  'issuer change': () => ({ args: [] }),
  // The last one: what follows would need the new secret.
  'secret change': async () => {
    // Endpoints of other runs have no real secret.
    await store.pool.query('delete from webhook_endpoints')
    return { args: [], input: `${'n'.repeat(40)}\n` }
  },
}

/** Commands that leave no activity of their own, with the reason. */
const WITHOUT: Record<string, string> = {
  serve: 'runs the store: the calls leave activities',
  migrate: 'works below the tables',
  config: 'reads the environment',
  doctor: 'reads',
  backup: 'changes no table',
  restore: 'works below the tables; its replay leaves one',
  'database move': 'src/cli/move-database.long.test.ts: it leaves one in its new database',
  'catalogue export': 'reads',
  convert: 'turns one file into another, without the database',
  'lake query': 'reads files, without the database',
  'mail list': 'reads',
  'mail templates': 'needs no store',
  'webhook list': 'reads',
  'webhook deliveries': 'reads',
  verify: 'reads; audit_runs has the run',
  'admin list': 'reads',
  activities: 'reads',
  'keys list': 'reads',
  openapi: 'needs no store',
  asyncapi: 'needs no store',
}

test('each command leaves an activity, or has a reason why not', () => {
  assert.deepEqual(COMMANDS.map(({ name }) => name).toSorted(), [...Object.keys(RUNS), ...Object.keys(WITHOUT)].toSorted())
})

for (const [name, prepare] of Object.entries(RUNS)) {
  test(`storefront ${name} leaves an activity of this name`, async (t) => {
    const { args, input = '' } = await prepare()
    const { rows: before } = await store.pool.query('select coalesce(max(id), 0) as id from activities')
    const { status, stderr } = await runStorefront(t, [...name.split(' '), ...args], { env, input })
    assert.deepEqual([status, stderr], [0, ''])
    const { rows } = await store.pool.query('select distinct actor_type, actor_id, action from activities where id > $1', [before[0].id])
    assert.deepEqual(rows, [{ actor_type: 'system', actor_id: null, action: name }])
  })
}

function write(name: string, line: object): string {
  const file = join(store.config.dataDir, `${name}.ndjson`)
  writeFileSync(file, `${JSON.stringify(line)}\n`)
  return file
}

async function registerProven(): Promise<string> {
  const { id, email } = await store.register()
  await store.pool.query('update users set email_verified_at = now() where id = $1', [id])
  return email
}

async function makeKey(): Promise<string> {
  const how = { auditContext: auditContextOfCommand('test'), now: new Date() }
  return (await createApiKey(store.pool, { name: 'Scanner', scopes: ['stock:read'], expiresAt: null }, how)).id
}

async function addEndpoint(): Promise<string> {
  const id = randomUUID()
  await store.pool.query(`insert into webhook_endpoints (id, url, sealed_secret) values ($1, 'https://shop.example/', 'one')`, [id])
  return id
}

async function failDelivery(): Promise<string> {
  const [id, eventId] = [await addEndpoint(), `${randomUUID()}.1`]
  await store.pool.query(`insert into webhook_events (event_id, type, body) values ($1, 'order.placed', '{}')`, [eventId])
  await store.pool.query(`insert into webhook_deliveries (endpoint_id, event_id, status, queued_at) values ($1, $2, 'failed', now())`, [
    id,
    eventId,
  ])
  return id
}

async function failMail(): Promise<string> {
  const { rows } = await store.pool.query('select id, user_id from orders limit 1')
  await store.pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status, content, failed_at)
     values ($1, $2, $3, 'storefront.order.created', 'failed', $4, now())`,
    [`${rows[0].id}.99`, rows[0].id, rows[0].user_id, JSON.stringify(exampleMailContent('created', 'EUR'))],
  )
  return `${rows[0].id}.99`
}

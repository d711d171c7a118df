import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Operation, readContract } from '../fuzz/contract.ts'
import { type FuzzedStore, startFuzzedStore } from '../fuzz/fuzzed-store.ts'
import { Judge } from '../fuzz/judge.ts'
import { Known } from '../fuzz/known.ts'
import { PASSWORD } from '../fuzz/valid-request.ts'
import { housekeepingTasks, runDueTasks } from '../src/app/housekeeping.ts'
import { generateWebhookSecret, signWebhook } from '../src/webhooks/webhook-signature.ts'
import { type ExplainedStatement, explainStatements } from './explained-statements.ts'
import { fillLargeShop, LARGE_SHOP } from './large-shop.ts'
import { registerOperator } from './register-operator.ts'
import { exceptionOf, isBounded, unneededExceptions } from './statement-bounds.ts'
import { type Account, requestsOf, type TestStore } from './store.ts'
import { silent } from './stream-harness.ts'
import { type WorstIds, worstPaths } from './worst-requests.ts'
import { worstWrites } from './worst-writes.ts'

const ATTEMPTS = 3
/** The routes of a shorter run, such as `^POST /orders`. */
const ONLY = process.env.STATEMENT_ROUTES ?? '.'
/** Operations that need what no request of this test has. */
const SELDOM_DONE = new Set([
  // A token of a mail or of a login.
  ...['POST /auth/password-reset/confirm', 'POST /auth/verify-email', 'POST /auth/refresh', 'POST /auth/email/revert'],
  ...['POST /orders/by-link', 'POST /orders/by-link/cancel'],
  ...['POST /me/email', 'POST /me/email/confirm'],
  // A code, a passkey or a provider.
  ...['POST /auth/second-factor', 'POST /auth/passkey', 'POST /auth/step-up', 'POST /auth/oidc/token', 'POST /me/totp/confirm'],
  ...['POST /me/passkeys', 'PATCH /me/passkeys/{id}', 'DELETE /me/passkeys/{id}', 'POST /me/recovery-codes', 'DELETE /me/totp'],
  ...['POST /me/sign-ins', 'DELETE /me/sign-ins/{provider}', 'DELETE /admin/operators/{id}/factors'],
  // A process for commands, a query, an adjusted order.
  ...['POST /admin/audits', 'POST /admin/lake/queries'],
  'DELETE /admin/orders/{id}/adjustments/{version}',
])
/** Statements of the test's own. */
const PREPARING = 'the test prepares'
/** These end what others need: they come last, in this order. */
const LAST = [
  ...['POST /admin/webhooks/{id}/disable', 'DELETE /admin/webhooks/{id}'],
  ...['PATCH /admin/categories/{id}', 'POST /auth/logout', 'POST /auth/password', 'DELETE /me', 'DELETE /admin/customers/{id}'],
]
const MAIL_EVENTS_SECRET = generateWebhookSecret()

test('no statement of a route or a loop reads more than it returns, in a shop of 200,000 products and orders', async (t) => {
  const statements = new Map<string, ExplainedStatement>()
  const note = (statement: ExplainedStatement) => {
    if (statement.during === PREPARING) return
    const known = statements.get(statement.text)
    if (known === undefined || excessOf(statement) > excessOf(known)) statements.set(statement.text, statement)
  }
  let recorder = { during: '' }
  const store = await startFuzzedStore(t, {
    pageCacheBytes: 0,
    leavesWork: true,
    mailEventsSecret: MAIL_EVENTS_SECRET,
    staffMails: { to: ['staff@store.example'], orders: 'at_once', language: 'en' },
    fill: async (database) => {
      await fillLargeShop(database.pool)
      recorder = await explainStatements(t, database, note)
    },
  })
  const refused = await sendWorstRequests(store, (during) => {
    recorder.during = during
  })
  recorder.during = 'housekeeping'
  await runHousekeeping(store)
  const writes = await sendWorstWrites(store, (during) => {
    recorder.during = during
  })

  const beyond = [...statements.values()].filter((statement) => !isBounded(statement))
  const unknown = beyond.filter((statement) => exceptionOf(statement) === undefined)
  t.diagnostic(`${statements.size} statements, ${beyond.length} of them beyond the bound, ${unknown.length} without a reason`)
  const found = {
    unbounded: unknown.toSorted((a, b) => excessOf(b) - excessOf(a)).map(describe),
    refused: [...refused, ...writes.refused],
    neverDone: writes.neverDone,
    // A shorter run needs few of them.
    unneeded: ONLY === '.' ? unneededExceptions([...statements.values()]) : [],
  }
  assert.deepEqual(found, { unbounded: [], refused: [], neverDone: [], unneeded: [] })

  // The test can fail: without one index a list by name reads every product.
  statements.clear()
  await store.pool.query('drop index products_name_id_idx')
  await sendWorstRequests(store, () => {}, /^GET \/products$/)
  const slow = [...statements.values()].filter((statement) => !isBounded(statement) && exceptionOf(statement) === undefined)
  assert.ok(slow.some(({ text }) => text.includes('order by product.name')))
})

const excessOf = ({ read, buffers, returned }: ExplainedStatement) => Math.max(read, buffers) / (returned + 1)
const describe = ({ text, read, buffers, returned, during }: ExplainedStatement) =>
  `${read} rows and ${buffers} buffers for ${returned} (${during}): ${text.slice(0, 400)}`

/** Returns those that the store could not answer. */
async function sendWorstRequests(store: FuzzedStore, before: (what: string) => void, only = new RegExp(ONLY)): Promise<string[]> {
  const { operations } = await readContract()
  before(PREPARING)
  const admin = await registerOperator(store)
  const most = await logInAsMost(store)
  const few = await store.register()
  const ids = await readIds(store)
  const headersFor = ({ isSecured, isForOperators, path }: Operation): Record<string, string> => {
    const account = isForOperators ? admin : path === '/me/export' ? few : most
    return isSecured ? { authorization: `Bearer ${account.token}` } : {}
  }
  const refused: string[] = []
  for (const operation of operations.filter(({ method, name }) => method === 'GET' && only.test(name))) {
    for (const path of worstPaths(operation, ids)) {
      before(`GET ${path}`)
      const statuses: number[] = []
      // A busy machine may not keep the bound of time; a statement that reads too much does not either time.
      while (statuses.length < ATTEMPTS && statuses.every((status) => status >= 500))
        statuses.push(await statusOf(`http://127.0.0.1:${store.port}${path}`, headersFor(operation)))
      // Its subscribers are not ready while they skip what no event is.
      if (statuses.length === ATTEMPTS && path !== '/readyz') refused.push(`${statuses} GET ${path}`)
    }
  }
  return refused
}

/** Returns the refused requests, and the operations that none of the requests was good for. */
async function sendWorstWrites(store: FuzzedStore, before: (what: string) => void): Promise<{ refused: string[]; neverDone: string[] }> {
  const contract = await readContract()
  const judge = new Judge(contract)
  const admin = await registerOperator(store)
  let most = await logInAsMost(store)
  const known = new Known(store.mailFolder)
  const place = ({ name, method }: Operation) => LAST.indexOf(name) * 10 + (method === 'DELETE' ? 5 : 0)
  const writes = contract.operations
    .filter(({ method, name }) => method !== 'GET' && new RegExp(ONLY).test(name))
    .toSorted((a, b) => place(a) - place(b))
  const refused: string[] = []
  const neverDone: string[] = []
  for (const operation of writes) {
    before(PREPARING)
    if ((await store.call('GET', '/me', most)).status === 401) most = await logInAsMost(store)
    const ids = await readIds(store)
    learn(known, ids, [
      { ...most, role: 'customer' },
      { ...admin, role: 'admin' },
    ])
    const account = operation.isForOperators ? admin : most
    const statuses = new Set<number>()
    for (const { path, headers, body } of worstWrites(operation, { judge, known, ids })) {
      before(`${operation.method} ${path}`)
      const answer = await fetch(`http://127.0.0.1:${store.port}${path}`, {
        method: operation.method,
        headers: {
          ...headers,
          ...(operation.isSecured ? { authorization: `Bearer ${account.token}` } : {}),
          ...(operation.name === 'POST /mail-events' ? signWebhook([MAIL_EVENTS_SECRET], 'msg_1', new Date(), body ?? '') : {}),
        },
        ...(body === null ? {} : { body }),
      })
      await answer.arrayBuffer()
      statuses.add(answer.status)
      if (answer.status >= 500 && !SELDOM_DONE.has(operation.name)) refused.push(`${answer.status} ${operation.method} ${path}`)
    }
    const isDone = SELDOM_DONE.has(operation.name) || [...statuses].some((status) => status < 300)
    if (!isDone) neverDone.push(`${operation.name}: ${[...statuses]}`)
  }
  return { refused, neverDone }
}

function learn(known: Known, ids: WorstIds, accounts: Known['accounts']): void {
  known.accounts.splice(0, known.accounts.length, ...accounts)
  const resources = (all: readonly string[], ownerId: string | null = null) => all.map((id) => ({ id, etags: [], stockEtags: [], ownerId }))
  known.products.splice(0, known.products.length, ...resources(ids.products))
  known.categories.splice(0, known.categories.length, ...resources(ids.categories))
  known.orders.splice(0, known.orders.length, ...resources(ids.orders, LARGE_SHOP.customers_with.most))
  known.sessions.splice(0, known.sessions.length, ...resources(ids.sessions, LARGE_SHOP.customers_with.most))
}

/** Reads the first unit of the answer only: feeds and exports send as many statements as their reader asks for. */
async function statusOf(url: string, headers: Record<string, string>): Promise<number> {
  const response = await fetch(url, { headers, redirect: 'manual' })
  const reader = response.body?.getReader()
  await reader?.read()
  await reader?.cancel()
  return response.status
}

/** The customer with most of the orders. */
async function logInAsMost(store: TestStore): Promise<Account> {
  const { id } = await store.register({ password: PASSWORD })
  const { rows } = await store.pool.query<{ id: string; email: string }>(
    `update users set password_hash = (select password_hash from users where id = $1) where id = $2 returning id, email`,
    [id, LARGE_SHOP.customers_with.most],
  )
  const [account = { id: '', email: '' }] = rows
  const { json } = await store.call('POST', '/auth/login', { body: { email: account.email, password: PASSWORD } })
  const token = json.access_token
  return { ...account, password: PASSWORD, token, refreshToken: json.refresh_token, ...requestsOf(store.call, token) }
}

async function readIds({ pool }: TestStore): Promise<WorstIds> {
  const list = async (statement: string) => (await pool.query<{ id: string }>(statement)).rows.map(({ id }) => id)
  return {
    products: await list(`select md5('product ' || n)::uuid as id from unnest(array[11, 1]) as n`),
    slugs: await list(`select slug as id from product_slugs where product_id = md5('product 11')::uuid`),
    categories: await list('select id from categories'),
    // One that a call can change, and one that is too large.
    groups: [...(await list(`select variant_group as id from products where id = md5('product 12')::uuid`)), LARGE_SHOP.group],
    orders: await list(
      `select min(id::text) as id from orders where user_id = '${LARGE_SHOP.customers_with.most}' group by status
      union all (select id::text from orders order by number desc limit 1)`,
    ),
    mails: await list(`select min(event_id) as id from email_deliveries where status in ('failed', 'sent') group by status`),
    webhooks: await list('select id from webhook_endpoints'),
    sessions: await list(`select id from sessions where user_id = '${LARGE_SHOP.customers_with.most}'`),
    addresses: await list('select id from customer_addresses'),
    operators: await list(`select id from users where role not in ('customer', 'guest')`),
    'api-keys': await list('select id from api_keys'),
  }
}

/** All of its tasks, as at a full hour. */
async function runHousekeeping({ config, pool }: TestStore): Promise<void> {
  const now = () => new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000)
  await runDueTasks(housekeepingTasks(config, { pool, logger: silent, now }), now(), silent)
}

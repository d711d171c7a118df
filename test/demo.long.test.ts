import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { listProducts, register } from './shopping.ts'
import { runStorefront, serve } from './store-process.ts'
import { NO_TERMINAL, runInTerminal } from './terminal.ts'

const CTRL_C = '\x03'
// A new cluster takes seconds: the tests share this one, one after the other.
const cleanup = { after }
const folder = makeDataFolder(cleanup)
const env = { DATA_DIR: folder.path, LAKE_FLUSH_SECONDS: '1' }
const store = await serve(cleanup, { env })

/** Waits until every event has its mail and its row in the lake, and asserts that nothing is missing. */
async function assertComplete(t: Parameters<typeof runStorefront>[0]): Promise<{ orders: { orders: number; versions: number } }> {
  return eventually(
    async () => {
      const { status, stdout, stderr } = await runStorefront(t, ['verify', '--json'], { env })
      const { findings, ...report } = JSON.parse(stdout)
      assert.deepEqual(findings, [], stderr)
      const { versions } = report.orders
      return status === 0 && report.mails.sent === versions && report.lake.events === versions && report
    },
    { what: 'a mail and a row in the lake for every change' },
  )
}

test('a fast demo fills the past month: orders in every status, their mails and their rows in the lake', async (t) => {
  const first = await runStorefront(t, ['demo', '--fast', '--orders', '24'], { env })
  assert.equal(first.status, 0, first.stderr)
  assert.match(
    first.stdout,
    /^operator: (\S+)\npassword: (\S{24})\nIt is not shown again\.\nplaced 24 invented orders and changed their status \d+ times\n$/,
  )
  assert.equal(first.stderr, '')
  const [, email, password] = /operator: (\S+)\npassword: (\S+)/.exec(first.stdout) ?? []
  const login = await fetch(`${store.url}/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email, password }),
  })
  assert.equal(((await login.json()) as { user: { role: string } }).user.role, 'admin')

  const again = await runStorefront(t, ['demo', '--fast', '--orders', '6'], { env })
  assert.match(again.stdout, /^placed 6 invented orders/, 'the operator is known')
  assert.equal((await assertComplete(t)).orders.orders, 30)
  const { stdout } = await runStorefront(t, ['lake', 'query', 'select distinct status from orders order by 1', '--json'], { env })
  const statuses = (JSON.parse(stdout) as { status: string }[]).map(({ status }) => status)
  assert.deepEqual(statuses, ['cancelled', 'confirmed', 'delivered', 'pending', 'returned', 'shipped'])
})

test('a live demo places orders until Ctrl-C', { skip: NO_TERMINAL }, async (t) => {
  const terminal = runInTerminal(t, 'node bin/storefront.mjs demo', env)
  await eventually(async () => terminal.output.includes('Placed 1 invented orders'))
  terminal.type(CTRL_C)
  assert.equal((await terminal.ended)[0], 0, terminal.output)
  assert.match(terminal.output, /placed \d+ invented orders and changed their status \d+ times/)
  await assertComplete(t)
})

test('a demo follows orders of addresses for examples, as in the README', async (t) => {
  const [product = ''] = await listProducts(store.url)
  await (await register(store.url, `ada-${crypto.randomUUID()}@example.com`)).order(product)
  const { status, stderr } = await runStorefront(t, ['demo', '--fast', '--orders', '1'], { env })
  assert.equal(status, 0, stderr)
})

test('a store where a customer has ordered gets no invented orders unless they are forced', async (t) => {
  const [product = ''] = await listProducts(store.url)
  const customer = await register(store.url, 'ada@example.com.shop')
  await customer.order(product)
  const refused = await runStorefront(t, ['demo', '--fast', '--orders', '1'], { env })
  assert.deepEqual([refused.status, refused.stdout], [1, ''])
  assert.match(refused.stderr, /^storefront: this store has orders of customers: .* set DATA_DIR to another folder, or give --force\n$/)
  const forced = await runStorefront(t, ['demo', '--fast', '--orders', '1', '--force'], { env })
  assert.equal(forced.status, 0, forced.stderr)
  await assertComplete(t)
})

test('where no store runs, a demo runs the embedded one until Ctrl-C', { skip: NO_TERMINAL }, async (t) => {
  const own = { DATA_DIR: makeDataFolder(t).path, LOG_FORMAT: 'json', PORT: '0', OPS_PORT: 'off' }
  const terminal = runInTerminal(t, 'node bin/storefront.mjs demo --fast --orders 6', own)
  await eventually(async () => terminal.output.includes('placed 6 invented orders'))
  assert.match(terminal.output, /operator: operator@/)
  terminal.type(CTRL_C)
  assert.equal((await terminal.ended)[0], 0, terminal.output)
})

import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import pg from 'pg'
import { findEmbeddedPostgres, startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { createPool } from '../src/db/pool.ts'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { OPERATIONS } from './operations-commands.ts'
import { listProducts, register, untilDelivered } from './shopping.ts'
import { runStorefront, serve } from './store-process.ts'

/**
 * Commands and statements in the text that another test runs, or the reason why none does. Blocks are in
 * test/documents.test.ts.
 */
const ELSEWHERE: Record<string, string> = {
  'npm start': 'test/readme.long.test.ts',
  'npm ci --omit=dev': 'the start of README.md, without what only tests need',
  'npm pack': 'test/package.long.test.ts',
  'npm install ./storefront-store-0.1.0.tgz': 'test/package.long.test.ts',
  'npm run sbom': 'test/supply-chain.test.ts',
  'storefront help': 'src/cli/command-line.test.ts',
  'storefront help COMMAND': 'src/cli/command-line.test.ts',
  'storefront help keys': 'src/cli/command-line.test.ts',
  'grant rds_replication to shop_stream': 'a role of Amazon RDS',
  'alter user shop_stream with replication': "a statement for a provider's own server",
  'alter role shop_stream with replication': "a statement for a provider's own server",
  './storefront doctor': 'test/doctor.test.ts',
  'storefront doctor': 'test/doctor.test.ts',
  './storefront secret change': 'test/secret-change.long.test.ts',
  'storefront config': 'test/config-command.test.ts',
  'storefront demo': 'test/demo.long.test.ts',
  'storefront restore': 'src/cli/restore.long.test.ts',
  './storefront restore FOLDER': 'src/cli/restore.long.test.ts',
  'storefront replay --restored': 'src/cli/restore.long.test.ts',
  'storefront database move --from URL': 'src/cli/move-database.long.test.ts',
  'alter database shop connection limit -1': 'src/cli/move-database-in-use.long.test.ts',
  'psql "…?replication=database"': 'the connection for ALTER_REPLICATION_SLOT, which is tried with the driver of the store',
  'select pg_terminate_backend(4711)': 'ends the session that a line of `storefront migrate` names',
  'aws s3 sync': 'a program of AWS copies the files',
  'nats stream info ORDERS': 'a program of NATS prints it',
  'nats stream rmm ORDERS …': 'a program of NATS deletes it; the same for the topic in PostgreSQL is below',
}

// One stack: the store ends before its folder is removed.
const cleanup = { after }
const folder = makeDataFolder(cleanup)
const settings = { DATA_DIR: folder.path, LAKE_FLUSH_SECONDS: '1' }
const store = await serve(cleanup, { env: settings })
const { owner } = (await findEmbeddedPostgres(folder)) ?? assert.fail('the store has no database')
const pool = createPool({ url: owner, size: 2, applicationName: 'test', onError: () => {} })
onCleanup(cleanup, async () => void (pool.ended || (await pool.end())))
const shopper = await register(store.url)
const [product = ''] = await listProducts(store.url)
const order = (await shopper.order(product)) ?? assert.fail('refused')
const other = (await shopper.order(product)) ?? assert.fail('refused')
await untilDelivered(folder.path, [order, other])

/** Runs a command of the text, without the word that it begins with there. */
async function run(words: string, input = ''): Promise<string> {
  const { status, stdout, stderr } = await runStorefront(cleanup, words.split(' '), { env: settings, input })
  assert.deepEqual([status, stderr], [0, ''], words)
  return stdout
}

async function query<Row>(statement: { text: string }): Promise<Row[]> {
  return (await pool.query(statement.text)).rows as Row[]
}
const as = (text: string) => ({ text })
const isVerified = () =>
  eventually(async () => (await runStorefront(cleanup, ['verify'], { env: settings })).status === 0, {
    what: 'verify',
    timeoutMs: 120_000,
  })

let endpoint = ''
let key = ''
const password = 'the passphrase of an operator\n'

/** How each is tried; in this order. */
const TRIED: Record<string, (text: string) => Promise<unknown>> = {
  'storefront migrate': async () => assert.match(await run('migrate'), /up to date/),
  'storefront verify': isVerified,
  'storefront admin create EMAIL': () => run('admin create first@example.com', password),
  'storefront admin create EMAIL --role ROLE': () => run('admin create second@example.com --role support', password),
  'storefront admin role EMAIL ROLE': () => run('admin role second@example.com warehouse'),
  'storefront admin list': async () => assert.match(await run('admin list'), /second@example\.com.*warehouse/),
  'storefront admin reset-factors EMAIL': () => run('admin reset-factors second@example.com'),
  'storefront admin remove EMAIL': () => run('admin remove second@example.com'),
  'storefront activities': async () => assert.match(await run('activities'), /admin remove/),
  'storefront keys list': async () => {
    await run('keys create Scanner --scopes stock:read')
    key = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(await run('keys list'))?.[0] ?? assert.fail('no key')
  },
  'storefront keys revoke ID': () => run(`keys revoke ${key}`),
  'storefront signing-keys rotate': () => run('signing-keys rotate'),
  'storefront lake repair': async () => assert.match(await run('lake repair'), /wrote 0 events/),
  'storefront lake maintain': async () => assert.match(await run('lake maintain'), /^merged into 0 files/),
  'storefront replay': async () => assert.match(await run('replay'), /published 0 that it lacked/),
  'storefront replay --order ID': async () => assert.match(await run(`replay --order ${order}`), /compared 1 events/),
  'storefront replay --subscriber email': async () => assert.match(await run('replay --subscriber email'), /^email reads again/),
  'storefront replay --subscriber webhook': async () => assert.match(await run('replay --subscriber webhook'), /^webhook reads again/),
  'storefront replay --subscriber catalogue-webhook': async () =>
    assert.match(await run('replay --subscriber catalogue-webhook'), /^catalogue-webhook reads again/),
  'storefront mail list --order 100001': async () => assert.match(await run(`mail list --order 100001`), new RegExp(order)),
  'storefront mail list --status failed': async () => {
    await pool.query(`update email_deliveries set status = 'failed', sent_at = null, failed_at = now()`)
    assert.match(await run('mail list --status failed'), new RegExp(order))
  },
  'storefront mail retry EVENT_ID': () => run(`mail retry ${order}.1`),
  'storefront mail retry --all-failed': () => run('mail retry --all-failed'),
  'storefront webhook list': async () => {
    await run('webhook add https://receiver.example/hook')
    endpoint = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(await run('webhook list'))?.[0] ?? assert.fail('no endpoint')
  },
  'storefront webhook deliveries ID': () => run(`webhook deliveries ${endpoint}`),
  'storefront webhook enable ID': async () => {
    await pool.query(`update webhook_endpoints set disabled_at = now(), disabled_reason = 'gone'`)
    await run(`webhook enable ${endpoint}`)
  },
  'storefront webhook redeliver ID --all-failed': () => run(`webhook redeliver ${endpoint} --all-failed`),
  'storefront webhook rotate ID': () => run(`webhook rotate ${endpoint}`),
  'delete from topic_messages where sequence = …': async (text) => {
    const [{ sequence = 0 } = {}] = await query<{ sequence: number }>(as('select max(sequence) as sequence from topic_messages'))
    await query(as(text.replace('…', String(sequence))))
    assert.match(await run('replay'), /published 1 that it lacked/)
    await isVerified()
  },
  'select number, opened_at, reason, compared_at from database_incarnations order by number': async (text) =>
    assert.ok((await query(as(text))).length > 0),
  'select epoch, stream from topic_epochs': (text) => query(as(text)),
  'select usename, application_name, count(*) from pg_stat_activity group by 1, 2': async (text) =>
    assert.ok((await query<{ application_name: string }>(as(text))).some((row) => row.application_name.startsWith('storefront'))),
  'select max(sequence) from topic_messages': async (text) => assert.ok(Object.values((await query<object>(as(text)))[0] ?? {})[0] > 1),
  'select name, sequence from topic_subscribers': async (text) =>
    assert.equal((await query(as(text))).length, 5, 'three of orders, two of the catalogue'),
  'select slot_name, active, confirmed_flush_lsn, wal_status from pg_replication_slots': async (text) =>
    assert.ok((await query(as(text))).length > 0),
  'select slot_name, confirmed_flush_lsn from pg_replication_slots': async (text) => assert.ok((await query(as(text))).length > 0),
  'select slot_name, failover from pg_replication_slots': async (text) => assert.ok((await query(as(text))).length > 0),
  "select synced and not temporary and invalidation_reason is null as ready from pg_replication_slots where slot_name in ('shop_orders', 'shop_catalogue')":
    (text) => query(as(text)),
  'select pg_log_standby_snapshot()': (text) => query(as(text)),
  'select pid, state, query from pg_stat_activity where pid = any(pg_blocking_pids(…))': (text) =>
    query(as(text.replace('…', 'pg_backend_pid()'))),
  'ALTER_REPLICATION_SLOT shop_orders (FAILOVER)': async (text) => {
    await pool.query(`select pg_create_logical_replication_slot('inline_slot', 'pgoutput')`)
    const client = new pg.Client({ connectionString: owner, replication: 'database' } as pg.ClientConfig)
    await client.connect()
    await client.query(text.replace('shop_orders', 'inline_slot'))
    await client.end()
    const { rows } = await pool.query(
      `select failover, pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = 'inline_slot'`,
    )
    assert.equal(rows[0]?.failover, true)
  },
  "select pg_copy_logical_replication_slot('OLD', 'NEW')": async (text) => {
    await query(as(`select pg_create_logical_replication_slot('inline_old', 'pgoutput')`))
    await query(as(text.replace('OLD', 'inline_old').replace('NEW', 'inline_new')))
  },
  "select pg_drop_replication_slot('OLD')": async (text) => {
    for (const name of ['inline_old', 'inline_new']) await query(as(text.replace('OLD', name)))
  },
  'revoke create on schema public from public': (text) => query(as(text)),
  'truncate order_figures, product_figures; update figure_progress set filled_from = null;': async (text) => {
    await query(as(text))
    assert.deepEqual(await query(as('select filled_from from figure_progress')), [{ filled_from: null }])
  },
  'do $$ declare examined bigint := 0; begin loop select last into examined from mend_order_search_texts(examined, 500); commit; exit when examined is null; end loop; end $$':
    async (text) => {
      await pool.query('delete from order_search_texts')
      await query(as(text))
      assert.deepEqual(await query(as('select from orders left join order_search_texts using (number) where words is null')), [])
    },
  'update sessions set revoked_at = now() where revoked_at is null': async (text) => {
    await query(as(text))
    assert.deepEqual(await query(as('select from sessions where revoked_at is null')), [])
  },
  // The last one: the store gets another secret.
  'delete from signing_keys; delete from encryption_secrets': async (text) => {
    assert.equal(await store.end('SIGTERM'), 0)
    await pool.end()
    const server = await startEmbeddedPostgres(folder)
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    await client.query(text)
    await client.end()
    await server.stop()
    rmSync(join(folder.path, 'secret'))
    const again = await serve(cleanup, { env: settings })
    await run(`webhook rotate ${endpoint}`)
    assert.ok(await (await register(again.url)).order(product))
    assert.equal(await again.end('SIGTERM'), 0)
  },
}

test('each command and statement in the text of docs/operate/ is tried, or has a reason why not', async (t) => {
  const text = OPERATIONS.replaceAll(/^```[\s\S]*?^```$/gm, '')
  const inline = [
    ...text.matchAll(
      /`((?:\.\/storefront|storefront|npm|nats|aws|select|insert|update|delete|drop|alter|revoke|grant|truncate|psql|do|ALTER_REPLICATION_SLOT)[ \n][^`]*)`/g,
    ),
  ]
  const blocks = [...OPERATIONS.matchAll(/^```sql\n([\s\S]*?)^```$/gm)].filter(([block]) => !block.includes('create role'))
  const found = new Set([...inline, ...blocks].map(([, words = '']) => words.replaceAll(/\s+/g, ' ').trim()))
  const unknown = [...found].filter((words) => TRIED[words] === undefined && ELSEWHERE[words] === undefined)
  assert.deepEqual(unknown, [], 'how is it tried?')
  assert.deepEqual(
    [...Object.keys(TRIED), ...Object.keys(ELSEWHERE)].filter((words) => !found.has(words)),
    [],
    'the document has it no more',
  )
  for (const reason of Object.values(ELSEWHERE))
    assert.ok(!/^(src|test)[/]/.test(reason) || existsSync(join(import.meta.dirname, '..', reason)), reason)
  assert.ok(found.size > 50)
  for (const [words, attempt] of Object.entries(TRIED)) await t.test(words, async () => void (await attempt(words)))
})

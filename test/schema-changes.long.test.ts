import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, test } from 'node:test'
import pg from 'pg'
import { startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { makeDataFolder } from './data-folders.ts'
import { runStorefront, serve } from './store-process.ts'

const folder = makeDataFolder({ after })
const env = { DATA_DIR: folder.path }

const COMMANDS = [
  ['catalogue', 'export'],
  ['catalogue', 'import', '-'],
  ['admin', 'create', 'boss@example.com'],
  ['signing-keys', 'rotate'],
  ['mail', 'list'],
  ['mail', 'retry', '--all-failed'],
  ['webhook', 'list'],
  ['webhook', 'add', 'https://example.com'],
  ['verify'],
  ['replay'],
  ['replay', '--subscriber', 'email'],
  ['lake', 'maintain'],
]

async function atDatabase<T extends pg.QueryResultRow>(...statements: string[]): Promise<T[][]> {
  const server = await startEmbeddedPostgres(folder)
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  try {
    const answers: T[][] = []
    for (const statement of statements) answers.push((await client.query<T>(statement)).rows)
    return answers
  } finally {
    await client.end()
    await server.stop()
  }
}

const STATE = [
  'select count(*) from migrations',
  'select slot_name from pg_replication_slots',
  'select count(*) from signing_keys',
  `select has_table_privilege('storefront_api', 'orders', 'select')`,
]

test('no command creates a store where there is none', async (t) => {
  const empty = makeDataFolder(t)
  for (const args of COMMANDS) {
    const { status, stdout, stderr } = await runStorefront(t, args, { env: { DATA_DIR: empty.path } })
    assert.deepEqual([status, stdout], [1, ''], args.join(' '))
    assert.equal(stderr, `storefront: there is no store in ${empty.path}; start one there, or run storefront migrate\n`)
  }
  assert.equal(existsSync(empty.cluster), false)
})

test('only migrate and serve upgrade an old schema or create a slot', async (t) => {
  assert.equal((await runStorefront(t, ['migrate'], { env })).status, 0)
  await atDatabase(
    `delete from migrations where name = (select max(name) from migrations)`,
    `select pg_drop_replication_slot(slot_name) from pg_replication_slots`,
  )
  const before = await atDatabase(...STATE)
  assert.deepEqual(before[1], [])
  for (const args of COMMANDS) {
    const { status, stdout, stderr } = await runStorefront(t, args, { env, input: 'a long enough passphrase\n' })
    assert.deepEqual([status, stdout], [1, ''], args.join(' '))
    assert.match(stderr, /^storefront: the database lacks 1 of \d+ migrations; run storefront migrate\n$/, args.join(' '))
  }
  assert.deepEqual(await atDatabase(...STATE), before)
})

test('missing roles are recreated by the next start, and by no command', async (t) => {
  const fresh = makeDataFolder(t)
  const env = { DATA_DIR: fresh.path }
  assert.equal((await runStorefront(t, ['migrate'], { env })).status, 0)
  const server = await startEmbeddedPostgres(fresh)
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  await client.query('drop owned by storefront_api, storefront_stream')
  await client.query('drop role storefront_api, storefront_stream')
  await client.end()
  await server.stop()
  const { status, stderr } = await runStorefront(t, ['verify'], { env })
  assert.deepEqual([status, stderr], [1, "storefront: the API's role lacks its rights in the database; run storefront migrate\n"])
  const store = await serve(t, { env })
  assert.equal((await fetch(`${store.url}/products`)).status, 200)
  assert.equal((await runStorefront(t, ['verify'], { env })).status, 0)
  assert.equal(await store.end('SIGTERM'), 0)
})

test('a store of a development version is refused in one line by its start and by every command', async (t) => {
  const fresh = makeDataFolder(t)
  const env = { DATA_DIR: fresh.path }
  assert.equal((await runStorefront(t, ['migrate'], { env })).status, 0)
  const server = await startEmbeddedPostgres(fresh)
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  await client.query(`update migrations set name = '0001_accounts' where name = (select min(name) from migrations)`)
  await client.end()
  await server.stop()
  for (const args of [['serve'], ['migrate'], ['verify']]) {
    const { status, stderr } = await runStorefront(t, args, { env })
    assert.equal(status, 1, args.join(' '))
    assert.match(stderr, /^storefront: this store was made by a development version and cannot be upgraded: [^\n]*\n$/, args.join(' '))
  }
})

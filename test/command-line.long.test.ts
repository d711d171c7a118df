import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder, serverProcesses } from './data-folders.ts'
import { connectTo, databaseUrl } from './database.ts'
import { TEST_SECRET } from './store.ts'
import { launch, runStorefront, serve } from './store-process.ts'

// A new cluster takes a second: the tests share this one, one after the other.
const folder = makeDataFolder({ after })
const env = { DATA_DIR: folder.path }

const lamp = { sku: 'LAMP-1', name: 'A lamp', category: 'lamps', price: { amount: 1_250, currency: 'EUR' }, stock: 5 }
const GOOD_AND_BAD = `${JSON.stringify(lamp)}\n{"sku": "LAMP-2"}\nnot json\n${JSON.stringify({ ...lamp, sku: 'LAMP-4' })}\n`

test('shows help and version when asked, and the usage of a command that was called wrongly', async (t) => {
  const [help, version] = await Promise.all([['help'], ['--version']].map((args) => runStorefront(t, args)))
  assert.deepEqual([help?.status, help?.stderr], [0, ''])
  assert.match(help?.stdout ?? '', /^usage: storefront COMMAND\n/)
  const { version: expected } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'))
  assert.deepEqual(version, { status: 0, stdout: `${expected}\n`, stderr: '' })
  const mistakes = [
    ['serve', '--nonsense'],
    ['catalogue', 'import'],
    ['mail', 'list', '--limit', 'x'],
  ]
  for (const [index, { status, stdout, stderr }] of (
    await Promise.all(mistakes.map((args) => runStorefront(t, args, { env })))
  ).entries()) {
    assert.deepEqual([status, stdout], [2, ''])
    const [command = '', second = ''] = mistakes[index] ?? []
    const name = second.startsWith('-') ? command : `${command} ${second}`
    assert.match(stderr, new RegExp(`^storefront: .+\\nusage: storefront ${name} .+\\n$`))
  }
})

test('a reader that has seen enough, such as head, ends no command with a stack', async (t) => {
  const written = `${folder.path}-documents`
  onCleanup(t, () => rmSync(written, { recursive: true, force: true }))
  const child = launch(['asyncapi', '--write', written])
  onCleanup(t, () => void child.kill('SIGKILL'))
  child.stdout?.destroy()
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const [status] = await once(child, 'close')
  assert.deepEqual([status, stderr], [0, ''])
  assert.ok(readdirSync(join(written, 'schemas')).length > 3, 'the command still does its work')
})

test('refuses settings it cannot use in one line that shows no secret', async (t) => {
  const secret = 'hunter2-hunter2'
  const refusals: [Record<string, string>, RegExp][] = [
    [{ PORT: 'abc' }, /^storefront: PORT must be a whole number/],
    [{ STOREFRONT_SECRET: secret }, /^storefront: STOREFRONT_SECRET must be at least 32 characters long/],
    [
      { DATABASE_URL: `mysql://me:${secret}@localhost/shop`, STOREFRONT_SECRET: TEST_SECRET },
      /^storefront: DATABASE_URL must be a URL that starts with postgres/,
    ],
    [{ ROLES: 'api,kitchen' }, /^storefront: ROLES must be some of api, stream, email, /],
  ]
  const results = await Promise.all(refusals.map(([settings]) => runStorefront(t, ['serve'], { env: { ...env, ...settings } })))
  for (const [index, { status, stdout, stderr }] of results.entries()) {
    assert.deepEqual([status, stdout], [2, ''], stderr)
    assert.match(stderr, refusals[index]?.[1] ?? /^$/)
    assert.equal(stderr.trim().split('\n').length, 1)
    assert.ok(!stderr.includes(secret))
  }
})

test('reports in one line that a database is unavailable, refuses the password or does not exist', async (t) => {
  const away = 'postgres://me:hunter2@127.0.0.1:1/shop'
  const stranger = Object.assign(new URL(databaseUrl('postgres')), { password: 'hunter2' }).href
  const runs = [away, stranger, databaseUrl('nowhere')].map((DATABASE_URL, index) => {
    const command = index === 0 ? 'serve' : 'migrate'
    return runStorefront(t, [command], { env: { ...env, DATABASE_URL, STOREFRONT_SECRET: TEST_SECRET } })
  })
  for (const { status, stderr } of await Promise.all(runs)) {
    assert.equal(status, 1)
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
    assert.match(stderr, /^storefront: the database cannot be used: /)
    assert.ok(!stderr.includes('hunter2'))
  }
})

test('prints the OpenAPI document', async (t) => {
  const { status, stdout } = await runStorefront(t, ['openapi'], { env })
  assert.equal(status, 0)
  assert.equal(JSON.parse(stdout).openapi, '3.1.0')
})

test('imports a catalogue into a store that does not run: the good lines, and status 1 with number and reason of each bad one', async (t) => {
  mkdirSync(folder.path, { recursive: true, mode: 0o700 })
  const file = join(folder.path, 'catalogue.ndjson')
  writeFileSync(file, GOOD_AND_BAD)
  assert.equal((await runStorefront(t, ['migrate'], { env })).status, 0)
  const mixed = await runStorefront(t, ['catalogue', 'import', file], { env })
  assert.deepEqual([mixed.status, mixed.stdout], [1, '2 created, 0 updated, 0 unchanged, 2 refused\n'])
  assert.match(mixed.stderr, /^line 2: .+\nline 3: .+\n$/)
  const good = await runStorefront(t, ['catalogue', 'import', '-'], { env, input: `${JSON.stringify(lamp)}\n` })
  assert.deepEqual(good, { status: 0, stdout: '0 created, 0 updated, 1 unchanged, 0 refused\n', stderr: '' })
  const csv = 'sku,name,description,category,image_url,price,currency,stock\nMUG-1,A mug,,mugs,,4.50,EUR,3\n'
  const imported = await runStorefront(t, ['catalogue', 'import', '-', '--format', 'csv'], { env, input: csv })
  assert.deepEqual([imported.status, imported.stdout], [0, '1 created, 0 updated, 0 unchanged, 0 refused\n'])
  assert.deepEqual(serverProcesses(folder.path), [])
})

test('says in one line that a file to import does not exist', async (t) => {
  const { status, stderr } = await runStorefront(t, ['catalogue', 'import', '/nowhere/at/all.csv'], { env })
  assert.equal(status, 1)
  assert.equal(stderr, 'storefront: /nowhere/at/all.csv cannot be used: there is no such file or folder (ENOENT)\n')
})

test('asks the lake of a store that does not run', async (t) => {
  const table = await runStorefront(t, ['lake', 'query', 'select count(*) as n from order_events'], { env })
  assert.equal(table.status, 0)
  assert.match(table.stdout, /\bn\b[\s\S]*\b0\b/)
  const bad = await runStorefront(t, ['lake', 'query', 'select nonsense'], { env })
  assert.equal(bad.status, 1)
  assert.match(bad.stderr, /^storefront: .*nonsense.*\n$/)
})

test('commands work beside a running store', async (t) => {
  const store = await serve(t, { env })
  const input = `${JSON.stringify({ ...lamp, sku: 'LAMP-9', name: 'A brand-new lamp' })}\n`
  const imported = await runStorefront(t, ['catalogue', 'import', '-'], { env, input })
  assert.deepEqual(imported, { status: 0, stdout: '1 created, 0 updated, 0 unchanged, 0 refused\n', stderr: '' })
  const found = (await (await fetch(`${store.url}/products?q=brand-new`)).json()) as { data: { sku: string }[] }
  assert.deepEqual(
    found.data.map(({ sku }) => sku),
    ['LAMP-9'],
  )
  assert.equal((await runStorefront(t, ['migrate'], { env })).stdout, 'the database is up to date\n')
  assert.equal((await runStorefront(t, ['lake', 'query', 'select 1 as one'], { env })).status, 0)
  assert.equal((await fetch(`${store.url}/readyz`)).status, 200)
  assert.equal(await store.end('SIGTERM'), 0)
})

test('a store does not run on a database that is not migrated, and does after migrate', async (t) => {
  const name = `test_${randomBytes(8).toString('hex')}`
  const admin = await connectTo(t, databaseUrl('postgres'))
  await admin.query(`create database ${name}`)
  onCleanup(t, async () => {
    await admin.query('select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1', [name])
    await admin.query(`drop database ${name} with (force)`)
  })
  const options = { env: { ...env, DATABASE_URL: databaseUrl(name), STOREFRONT_SECRET: TEST_SECRET } }
  const refused = await runStorefront(t, ['serve', '--role', 'api'], options)
  assert.equal(refused.status, 1)
  assert.match(refused.stderr, /^storefront: the database lacks (\d+) of \1 migrations; run storefront migrate\n$/)
  assert.equal((await runStorefront(t, ['migrate'], options)).status, 0)
  const store = await serve(t, { ...options, args: ['--role', 'api'] })
  assert.equal((await fetch(`${store.url}/products`)).status, 200)
  assert.equal(await store.end('SIGINT'), 0)
})

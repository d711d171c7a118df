import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createEncryption } from '../src/auth/store-secret.ts'
import { addEndpoint } from '../src/webhooks/webhook-endpoints.ts'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { collectLog } from './logs.ts'
import { startSmtpServer } from './smtp-server.ts'
import { startSecondProcess, startStore, TEST_SECRET } from './store.ts'
import { BIN, runStorefront, serve } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'
import { isAuthentic, startWebhookReceiver } from './webhook-receiver.ts'

const operations = { host: '127.0.0.1', port: 0, isRequired: true }

/** The commands of the document's section, for a shell that has a `storefront`. */
function readCommands(): string {
  const document = readFileSync(new URL('../docs/operate/run.md', import.meta.url), 'utf8')
  const [, block = ''] = /^## Changing the secret$[\s\S]*?^```sh\n([\s\S]*?)^```$/m.exec(document) ?? []
  assert.match(block, /\.\/storefront secret change/)
  return block.replaceAll('./storefront', `"${process.execPath}" "${BIN}"`)
}

test('after the commands of the document tokens are good, webhooks keep their signatures, and what waited goes out', async (t) => {
  const receiver = await startWebhookReceiver(t)
  const smtp = await startSmtpServer(t)
  const { logger, lines } = collectLog('error')
  const options = { operations, isPrivateWebhookAllowed: true, smtpUrl: smtp.url }
  const store = await startStore(t, { ...options, logger, roles: ['api', 'stream', 'webhook'] })
  const webhooks = createEncryption(TEST_SECRET, 'webhook secret')
  const { id: endpoint, secret } = await addEndpoint(store.pool, webhooks, { url: receiver.url, eventTypes: null, isPrivateAllowed: true })
  const [ada, lamp] = [await store.register(), await store.addProduct()]
  const order = async (call = store.call) => {
    const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
    assert.equal((await call('POST', '/orders', { token: ada.token, body })).status, 201)
  }
  const reset = (call = store.call) => call('POST', '/auth/password-reset', { body: { email: ada.email } })
  const untilReceived = (count: number) => eventually(async () => receiver.requests.length === count, { what: `webhook ${count}` })
  await order()
  await untilReceived(1)
  assert.equal((await reset()).status, 202)

  const folder = makeTestFolder(t, 'storefront-secret-')
  const env = { PATH: process.env.PATH, DATABASE_URL: store.addresses.api, DATA_DIR: store.config.dataDir }
  const { stdout, stderr } = await promisify(execFile)('sh', ['-euc', readCommands()], {
    cwd: folder,
    env: { ...env, STOREFRONT_SECRET: TEST_SECRET },
  })
  assert.match(
    stdout,
    /^encrypted again: signing keys 1, secrets of webhooks 1, of authenticator apps 0, account mails 1\nset STOREFRONT_SECRET /,
  )
  assert.equal(stderr, '')
  const next = readFileSync(join(folder, 'new-secret'), 'utf8').trim()

  const ask = async (path: string) => (await fetch(`http://127.0.0.1:${store.app.operationsPort}${path}`)).text()
  await eventually(async () => /^storefront_secret_outdated 1$/m.test(await ask('/metrics')), { what: 'the metric' })
  assert.match(await ask('/readyz'), /"name":"secret","reason":"the store's secret was changed: restart/)
  assert.equal(lines.filter((line) => line.includes("the store's secret was changed")).length, 1)
  assert.equal((await store.call('GET', '/readyz')).status, 200)
  assert.equal((await store.call('GET', '/me', { token: ada.token })).status, 200)
  assert.equal((await reset()).status, 503)
  await order()
  const readDeliveries = async () =>
    (await store.pool.query('select status, attempts, first_tried_at, last_error from webhook_deliveries order by queued_at desc')).rows
  const waiting = await eventually(async () => (await readDeliveries()).find(({ last_error }) => last_error !== null), { what: 'a note' })
  const reason = "the endpoint's secret cannot be decrypted with this STOREFRONT_SECRET: nothing was sent to the receiver"
  assert.deepEqual(waiting, { status: 'queued', attempts: 0, first_tried_at: null, last_error: reason })
  const { rows } = await store.pool.query('select failing_since from webhook_endpoints where id = $1', [endpoint])
  assert.deepEqual(rows, [{ failing_since: null }])
  assert.equal(receiver.requests.length, 1)

  await store.app.stop()
  await assert.rejects(startSecondProcess(t, store, options), { name: 'WrongSecret' })
  const late = await startSecondProcess(t, store, { ...options, secret: next, roles: ['api', 'stream', 'email', 'webhook'] })
  // A process checks for a new secret every half minute.
  await store.pool.query(`update webhook_deliveries set due_at = now() where status = 'queued'`)
  await order(late.call)
  await untilReceived(3)
  assert.ok(receiver.requests.every((request) => isAuthentic(secret, request)))
  assert.equal((await late.call('GET', '/me', { token: ada.token })).status, 200)
  assert.equal((await reset(late.call)).status, 202)
  const resets = () => smtp.mails.filter(({ subject }) => /password/.test(subject ?? ''))
  await eventually(async () => resets().length === 2, { what: 'the mail that waited, and one of now' })

  const again = await runStorefront(t, ['secret', 'change'], {
    env: { ...env, PATH: env.PATH ?? '', STOREFRONT_SECRET: TEST_SECRET },
    input: `${next}\n`,
  })
  assert.deepEqual([again.status, again.stderr], [0, ''])
  assert.match(again.stdout, /^the store has this secret already: nothing was changed\n/)
  const short = await runStorefront(t, ['secret', 'change'], {
    env: { ...env, PATH: env.PATH ?? '', STOREFRONT_SECRET: next },
    input: 'short',
  })
  assert.deepEqual(short, { status: 2, stdout: '', stderr: 'storefront: the new secret must be at least 32 characters long\n' })
})

test('an embedded store changes the secret that it keeps, beside a running process, and survives the kill of a change', async (t) => {
  const { path } = makeDataFolder(t)
  const env = { DATA_DIR: path, ROLES: 'api', EMBEDDED: 'on', OPS_PORT: 'off' }
  const read = () => readFileSync(join(path, 'secret'), 'utf8')
  const store = await serve(t, { env })
  const account = { email: 'ada@example.com', password: 'a long enough passphrase' }
  const headers = { 'content-type': 'application/json' }
  const registered = await fetch(`${store.url}/auth/register`, { method: 'POST', headers, body: JSON.stringify(account) })
  const { access_token: token } = (await registered.json()) as { access_token: string }
  const askMe = async (url: string) => (await fetch(`${url}/me`, { headers: { authorization: `Bearer ${token}` } })).status
  const first = read()
  const changed = await runStorefront(t, ['secret', 'change'], { env })
  assert.deepEqual([changed.status, changed.stderr], [0, ''])
  const restart = `the new secret is in ${path}/secret: restart the store if it is running`
  assert.equal(
    changed.stdout,
    `encrypted again: signing keys 1, secrets of webhooks 0, of authenticator apps 0, account mails 0\n${restart}\n`,
  )
  assert.notEqual(read(), first)
  assert.equal(await askMe(store.url), 200)

  // Killed as soon as the next secret is on disk: before the commit, after it, or when all is done.
  const second = read()
  const child = spawn(process.execPath, [BIN, 'secret', 'change'], {
    env: { PATH: process.env.PATH, ...env },
    detached: true,
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  while (!existsSync(join(path, 'secret.next')) && read() === second && child.exitCode === null) await delay(2)
  process.kill(-(child.pid ?? 0), 'SIGKILL')
  await ended
  assert.equal(await store.end('SIGTERM'), 0)
  const late = await serve(t, { env })
  assert.equal(await askMe(late.url), 200)
  assert.equal(await late.end('SIGTERM'), 0)
})

import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { eventually } from '../../test/eventually.ts'
import { queryFolder } from '../../test/lake-harness.ts'
import { collectLog } from '../../test/logs.ts'
import { type App, createApp } from '../app.ts'
import { readConfig } from '../config.ts'

const PASSWORD = 'canary-password-5f1c9'
const NEW_PASSWORD = 'canary-password-77ab2'

/** A store with the embedded PostgreSQL, whose WAL can be read. */
async function startEmbeddedStore(t: TestContext) {
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-canary-'))
  const { logger, lines } = collectLog('trace')
  const app: App = await createApp({
    config: readConfig({ DATA_DIR: dataDir, PORT: '0', OPS_PORT: 'off', LAKE_FLUSH_SECONDS: '1' }),
    logger,
  })
  t.after(async () => {
    await app.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  await app.start()
  const server = app.server
  assert.ok(server)
  const call = async (method: 'GET' | 'POST', url: string, body?: object, token?: string) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const answer = await server.inject({ method, url, headers, ...(body === undefined ? {} : { payload: body }) })
    return { status: answer.statusCode, json: answer.body === '' ? null : answer.json() }
  }
  const port = readFileSync(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[3]
  const password = readFileSync(join(dataDir, 'postgres-password'), 'utf8').trim()
  const client = new pg.Client({ connectionString: `postgres://storefront:${password}@127.0.0.1:${port}/storefront` })
  await client.connect()
  return { dataDir, lines, call, client }
}

/** Every row of every table as text, with bytea also decoded. */
async function dump(client: pg.Client): Promise<string> {
  const { rows } = await client.query(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`,
  )
  const parts: string[] = []
  for (const { name } of rows) {
    const table = await client.query({ text: `select * from ${name}`, rowMode: 'array' })
    for (const row of table.rows)
      parts.push(row.map((value: unknown) => (Buffer.isBuffer(value) ? value.toString('latin1') : JSON.stringify(value))).join('\t'))
  }
  return parts.join('\n')
}

function filesBelow(folder: string): [string, Buffer][] {
  if (!existsSync(folder)) return []
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return files.map((file) => [join(file.parentPath, file.name), readFileSync(join(file.parentPath, file.name))])
}

test('neither a password nor a token is in the database, its WAL, the logs, the topic, the lake or the mails', async (t) => {
  const { dataDir, lines, call, client } = await startEmbeddedStore(t)
  const email = 'canary@example.com'
  const { json: ada } = await call('POST', '/auth/register', { email, password: PASSWORD, name: 'Canary' })
  const { json: login } = await call('POST', '/auth/login', { email, password: PASSWORD })
  await call('POST', '/auth/login', { email, password: `${PASSWORD}-wrong` })
  const { json: second } = await call('POST', '/auth/refresh', { refresh_token: ada.refresh_token })
  await call('POST', '/auth/refresh', { refresh_token: ada.refresh_token })
  await call('GET', `/me?access_token=${login.access_token}`, undefined, `${login.access_token}x`)
  await call('POST', '/auth/refresh', { refresh_token: login.access_token })
  await call('POST', '/auth/password-reset', { email })
  assert.equal((await call('POST', '/me/email', { email: 'canary@new.example' }, second.access_token)).status, 202)
  const { json: page } = await call('GET', '/products?limit=1&in_stock=true')
  const order = await call('POST', '/orders', { items: [{ product_id: page.data[0].id, quantity: 1 }] }, second.access_token)
  assert.equal(order.status, 201)
  // These mails carry a new password's token, tokens to both mailboxes of an address change, and the order.
  const mailed = await eventually(
    async () => {
      const mails = filesBelow(join(dataDir, 'mail')).map(([, bytes]) => bytes.toString().replaceAll('=\r\n', ''))
      const tokens = mails.flatMap((text) => /^[A-Za-z0-9_-]{43}\r?$/m.exec(text)?.[0].trim() ?? [])
      return mails.length === 4 && tokens.length === 3 && tokens
    },
    { what: 'the mails' },
  )
  const changed = await call('POST', '/auth/password', { current_password: PASSWORD, new_password: NEW_PASSWORD }, second.access_token)
  assert.equal(changed.status, 204)
  await eventually(async () => filesBelow(join(dataDir, 'lake')).some(([name]) => name.endsWith('.parquet')), { what: 'the lake file' })

  const tokens = [ada, login, second].flatMap(({ access_token, refresh_token }) => [access_token, refresh_token])
  const secrets: [string, string][] = [PASSWORD, NEW_PASSWORD, ...tokens, ...mailed].map((secret) => [secret.slice(0, 12), secret])
  // A signature is the secret part of a token: it is enough to complete one.
  for (const token of tokens.filter((text) => text.includes('.'))) secrets.push(['a signature', token.split('.')[2]])
  await client.query('checkpoint')
  const places: [string, Buffer][] = [
    ['the database', Buffer.from(await dump(client), 'latin1')],
    ['the logs', Buffer.from(lines.join(''))],
    ...filesBelow(join(dataDir, 'postgres', 'pg_wal')),
    ...filesBelow(join(dataDir, 'postgres', 'base')),
    // The lake's files are compressed, so their rows are searched too.
    ['the lake', Buffer.from(JSON.stringify(await queryFolder(join(dataDir, 'lake'), 'select * from order_events')))],
    ...filesBelow(join(dataDir, 'mail')),
    ['the server log', readFileSync(join(dataDir, 'postgres.log'))],
  ]
  await client.end()
  assert.ok(places.length > 10 && lines.length > 10)
  assert.ok(
    places.some(([name, bytes]) => name.includes('pg_wal') && bytes.includes(email)),
    'the WAL that is searched is the one that was written',
  )
  for (const [place, bytes] of places) {
    for (const [name, secret] of secrets) {
      const isItsOwnMail = mailed.includes(secret) && place.includes('/mail/')
      for (const form of [secret, Buffer.from(secret).toString('base64').slice(0, -4), Buffer.from(secret).toString('hex')]) {
        assert.ok(isItsOwnMail || !bytes.includes(form), `${name}… is in ${place}`)
      }
    }
  }
})

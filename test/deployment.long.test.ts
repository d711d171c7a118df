import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { onCleanup } from './cleanup.ts'
import { type DebianPostgres, debianPostgresMissing, startDebianPostgres } from './debian-postgres.ts'
import { imageCommands, imageSettings, listVariables, ROOT, readServices } from './deployment-files.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { NO_NATS, startNatsServer } from './nats-server.ts'
import { startS3Server } from './s3-server.ts'
import { startSmtpServer } from './smtp-server.ts'

const values = Object.fromEntries(listVariables().map((name) => [name, `a-value-of-${name}-for-tests-long-enough`]))
const services = readServices(values)
const { entrypoint, command, healthcheck } = imageCommands()
const skip = NO_NATS || debianPostgresMissing
const PASSWORD = 'a long enough passphrase'

/** The image's user, where the tests may be another user and that one can read the program. */
const IMAGE_USER = { uid: 10_001, gid: 10_001 }
const isImageUser =
  process.getuid?.() === 0 && spawnSync(process.execPath, [join(ROOT, 'bin/storefront.mjs'), '--help'], IMAGE_USER).status === 0
const identity = isImageUser ? IMAGE_USER : {}

/** What the image runs, with the program in this folder. */
const here = (words: readonly string[]) => words.map((word) => (word === 'node' ? process.execPath : word.replace('/app/', ROOT)))

test('the commands of the image, with the settings of compose.yaml, carry an order to the mail and the lake', { skip }, async (t) => {
  const store = await prepare(t)
  assert.equal((await store.run('migrate')).status, 0)
  assert.equal((await store.run('migrate')).status, 0, 'again')
  const roles = ['api-1', 'stream-1', 'email-1', 'lake-1', 'webhook-1']
  const processes = await Promise.all(roles.map((name) => store.start(name)))
  for (const { check } of processes) await eventually(async () => check() === 0, { what: 'a healthy container' })
  for (const { readiness } of processes)
    await eventually(async () => /^200 /.test(await readiness()), { what: 'readiness' }).catch(async () =>
      assert.match(await readiness(), /^200 /),
    )

  const made = await store.run('api-1', ['admin', 'create', 'ada@example.com'], `${PASSWORD}\n`)
  assert.equal(made.status, 0, made.stderr)
  const api = processes[0]?.url ?? ''
  const post = async (path: string, body: unknown, token = '') => {
    const headers = { 'content-type': 'application/json', ...(token === '' ? {} : { authorization: `Bearer ${token}` }) }
    const answer = await fetch(`${api}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`)
    return (await answer.json()) as { id: string; number: string; access_token: string }
  }
  const { access_token: ada } = await post('/auth/login', { email: 'ada@example.com', password: PASSWORD })
  const lamp = await post('/admin/products', { sku: 'LAMP', name: 'Lamp', category: 'lamps', price: { amount: 100, currency: 'EUR' } }, ada)
  const { access_token: bob } = await post('/auth/register', { email: 'bob@example.com', password: PASSWORD })
  const order = await post('/orders', { items: [{ product_id: lamp.id, quantity: 1 }] }, bob)
  await eventually(async () => store.mails.some((mail) => mail.subject?.includes(order.number)), { what: 'the mail' })
  await eventually(async () => readdirSync(store.lake, { recursive: true }).some((name) => String(name).endsWith('.parquet')), {
    what: 'a file in the lake',
  })

  for (const { stop, check } of processes) {
    assert.equal(await stop(), 0)
    assert.equal(check(), 1, 'the health check of a stopped process')
  }
})

async function prepare(t: TestContext) {
  const [postgres, nats, smtp, s3] = await Promise.all([
    startDebianPostgres(t, { fsync: 'off', wal_level: 'logical' }),
    startNatsServer(t),
    startSmtpServer(t),
    startS3Server(t),
  ])
  await createRoles(postgres)
  const { host } = new URL(postgres.address)
  const settingsOf = (name: string, dataDir: string): Record<string, string> => ({
    ...imageSettings(),
    ...Object.fromEntries(
      Object.entries(services[name]?.environment ?? {}).map(([key, value]) => [key, value.replace('@postgres:5432', `@${host}`)]),
    ),
    // Addresses of this test instead of those of containers.
    ...{
      DATA_DIR: dataDir,
      HOME: dataDir,
      HOST: '127.0.0.1',
      OPS_HOST: '127.0.0.1',
      NATS_URL: nats.url,
      NATS_REPLICAS: '1',
      SMTP_URL: smtp.url,
    },
    ...{ ...s3.env, LAKE_URL: `s3://${s3.bucket}/storefront`, S3_ENDPOINT: s3.url, LAKE_FLUSH_SECONDS: '1', CDN_PURGE_URL: '' },
    PATH: process.env.PATH ?? '',
  })

  async function run(name: string, args: readonly string[] = services[name]?.command ?? command, input = '') {
    const [program = '', ...words] = here([...entrypoint, ...args])
    const running = promisify(execFile)(program, words, { ...identity, cwd: ROOT, env: settingsOf(name, makeFolder(t)) })
    running.child.stdin?.end(input)
    return running.then(
      ({ stderr }) => ({ status: 0, stderr }),
      ({ code, stderr }: { code: number; stderr: string }) => ({ status: code, stderr }),
    )
  }

  async function start(name: string) {
    const [port, operationsPort] = [await freePort(), await freePort()]
    const env = { ...settingsOf(name, makeFolder(t)), PORT: String(port), OPS_PORT: String(operationsPort) }
    const [program = '', ...words] = here([...entrypoint, ...command])
    const child = spawn(program, words, { ...identity, cwd: ROOT, env, stdio: 'ignore' })
    const ended = once(child, 'exit')
    const stop = async () => {
      child.kill('SIGTERM')
      return (await ended)[0] as number | null
    }
    onCleanup(t, async () => void (await stop()))
    const [checker = '', ...checks] = here(healthcheck)
    return {
      url: `http://127.0.0.1:${port}`,
      check: () => spawnSync(checker, checks, { ...identity, cwd: ROOT, env }).status,
      async readiness() {
        const answer = await fetch(`http://127.0.0.1:${operationsPort}/readyz`)
        return `${answer.status} ${await answer.text()}`
      },
      stop,
    }
  }

  return { run, start, mails: smtp.mails, lake: s3.folder }
}

/** Runs the script that the container of PostgreSQL runs. */
async function createRoles(postgres: DebianPostgres): Promise<void> {
  const { hostname, port } = new URL(postgres.address)
  const script = readFileSync(join(ROOT, 'deploy/compose/create-roles.sh'), 'utf8')
  const variables = { SCRIPT: script, PGHOST: hostname, PGPORT: port, PGDATABASE: 'postgres', PGDATA: postgres.cluster }
  await postgres.run('bash -c "$SCRIPT"', { ...values, ...variables })
  assert.match(readFileSync(join(postgres.cluster, 'pg_hba.conf'), 'utf8'), /^host replication standby all scram-sha-256$/m)
}

function makeFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-container-'))
  if (isImageUser) chownSync(folder, IMAGE_USER.uid, IMAGE_USER.gid)
  onCleanup(t, () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

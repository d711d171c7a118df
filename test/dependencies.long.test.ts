import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { createTopic } from '../src/app/create-topic.ts'
import { openLake } from '../src/app/open-lake.ts'
import { type App, createApp } from '../src/app.ts'
import { createEncryption } from '../src/auth/store-secret.ts'
import { recordProductEvents } from '../src/catalogue/product-events.ts'
import { type Config, ROLES, type Role, readConfig } from '../src/config.ts'
import type { DatabaseAddresses } from '../src/db/addresses.ts'
import { sql } from '../src/db/sql.ts'
import { inTransaction } from '../src/db/transaction.ts'
import { findLakeEnd } from '../src/lake/lake-end.ts'
import { addEndpoint } from '../src/webhooks/webhook-endpoints.ts'
import { onCleanup } from './cleanup.ts'
import { openDeadWire } from './dead-wire.ts'
import {
  type Cell,
  DEPENDENCIES,
  type Dependency,
  expected,
  MOMENTS,
  type Moment,
  renderTable,
  WORKS,
  type Work,
} from './dependency-cells.ts'
import { eventually } from './eventually.ts'
import { type NatsServer, NO_NATS, startNatsServer } from './nats-server.ts'
import { OPERATIONS } from './operations-commands.ts'
import { type S3Server, startS3Server } from './s3-server.ts'
import { startSmtpServer } from './smtp-server.ts'
import { addProduct, caller, register, TEST_SECRET } from './store.ts'
import { makeStreamDatabase } from './stream-harness.ts'
import { fillDisk, mountTmpfs, NO_TMPFS } from './tmpfs.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

test('the table of what stops without a dependency is the one that is tested', () => {
  assert.ok(OPERATIONS.includes(renderTable()), `docs/operations.md lacks\n${renderTable()}`)
})

interface Process {
  role: Role | 'all'
  app: App
}

/** A store whose processes reach each dependency through a gate that can be closed. */
async function makeDeployment(t: TestContext, roles: readonly (Role | 'all')[], { nats, s3 }: { nats: NatsServer; s3: S3Server }) {
  const database = await makeStreamDatabase(t)
  const { pool } = database
  const [smtp, endpoint, cache] = [await startSmtpServer(t), await startWebhookReceiver(t), await startWebhookReceiver(t)]
  const gates = {
    database: await openDeadWire(t, database.url),
    broker: await openDeadWire(t, nats.url),
    bucket: await openDeadWire(t, s3.url),
    'mail server': await openDeadWire(t, smtp.url),
    CDN: await openDeadWire(t, `http://127.0.0.1:${cache.port}`),
  }
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-test-'))
  onCleanup(t, () => rmSync(dataDir, { recursive: true, force: true }))
  const through = (url: string) => Object.assign(new URL(url), { host: new URL(gates.database.url).host }).href
  const addresses = Object.fromEntries(
    Object.entries(database.addresses).map(([name, url]) => [name, through(url)]),
  ) as unknown as DatabaseAddresses
  const environment = {
    ...{ DATABASE_URL: addresses.api, DATABASE_STREAM_URL: addresses.stream, DATABASE_OWNER_URL: addresses.owner },
    ...{
      NATS_URL: gates.broker.url.replace(/\/$/, ''),
      STOREFRONT_SECRET: TEST_SECRET,
      DATA_DIR: dataDir,
      SMTP_URL: gates['mail server'].url,
    },
    ...{ PORT: '0', OPS_PORT: '0', RATE_LIMITS: 'off', LAKE_FLUSH_SECONDS: '1', LAKE_TABLE_SECONDS: '0', WEBHOOK_ALLOW_PRIVATE: 'on' },
    CDN_PURGE_URL: gates.CDN.url.replace('http:', 'varnish:').replace(/\/$/, ''),
  }
  const clock = { aheadMs: 0 }
  const lakeBucket = { bucket: s3.bucket, prefix: database.name, endpoint: gates.bucket.url.replace(/\/$/, ''), region: 'test-region-1' }
  let config: Config = { ...readConfig(environment), lakeBucket }
  const direct = (): Config => ({
    ...config,
    databaseAddresses: database.addresses,
    nats: config.nats && { ...config.nats, servers: nats.url },
    lakeBucket: config.lakeBucket && { ...config.lakeBucket, endpoint: s3.url },
  })
  const topic = await createTopic(direct(), { pool, url: database.url, logger: pino({ level: 'silent' }) })
  onCleanup(t, () => topic.stop())
  const encryption = createEncryption(TEST_SECRET, 'webhook secret')
  await addEndpoint(pool, encryption, { url: endpoint.url, eventTypes: null, isPrivateAllowed: true })

  const processes: Process[] = []
  const start = async (role: Role | 'all') => {
    const logger = pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' })
    const own = { ...config, roles: role === 'all' ? ROLES : [role] }
    const app = await createApp({ config: own, logger, now: () => new Date(Date.now() + clock.aheadMs) })
    processes.push({ role, app })
    await app.start()
  }
  const stop = async () => void (await Promise.all(processes.splice(0).map(({ app }) => app.stop())))
  onCleanup(t, stop)
  const mailFiles = () =>
    readdirSync(config.dataDir, { recursive: true, encoding: 'utf8' }).filter((name) => /^mail\/[^.].*\.eml$/.test(name))
  const hasMail = (email: string) =>
    config.smtpUrl === null
      ? mailFiles().some((name) => readFileSync(join(config.dataDir, name), 'utf8').includes(email))
      : smtp.mails.some(({ to }) => JSON.stringify(to).includes(email))
  const readLakeEnd = async () => {
    const lake = await openLake(direct())
    return findLakeEnd(lake, 'orders').finally(() => lake.close())
  }

  /** Whether no purge of an earlier change is to come. */
  const hasPurged = async () => {
    const { rows } = await pool.query<{ left: number }>(`select (select count(*) from catalogue_changes)
      + (select count(*) from pgboss.job where name = 'cdn-purge' and state <> 'completed') as left`)
    return cache.requests.length > 0 && rows[0]?.left === 0
  }

  return {
    ...{ processes, clock, gates, roles, start, stop, dataDir },
    /** From the next start on mails and lake are files on this disk. */
    useDisk(folder: string) {
      config = { ...config, dataDir: folder, smtpUrl: null, lakeBucket: null }
    },
    async prepare() {
      const api = processes.find(({ role }) => role === 'api' || role === 'all')?.app.server
      assert.ok(api)
      const { token, email } = await register(caller(api))
      const product = await addProduct(pool)
      await eventually(hasPurged, { what: 'the first purges' })
      return { token, email, product }
    },
    /** A customer's order and a change of the catalogue; the outcome of each is a check for each kind of work. */
    async work({ token, email, product }: { token: string; email: string; product: { id: string } }) {
      const before = { sequence: await topic.newestSequence(), deliveries: endpoint.requests.length, purges: cache.requests.length }
      const api = processes.find(({ role }) => role === 'api' || role === 'all')?.app.server
      const body = { items: [{ product_id: product.id, quantity: 1 }] }
      const status = api == null ? 503 : (await caller(api)('POST', '/orders', { token, body })).status
      await inTransaction(pool, async (tx) => {
        await tx.query(sql`update products set name = ${crypto.randomUUID()} where id = ${product.id}`)
        // A change without an event would not reach the stream of the catalogue.
        assert.equal(await recordProductEvents(tx, [product.id], null), 1)
      })
      const done: Record<Work, () => Promise<boolean>> = {
        orders: async () => status === 201,
        events: async () => (await topic.newestSequence()) > before.sequence,
        mails: async () => hasMail(email),
        lake: async () => (await readLakeEnd()) > before.sequence,
        webhooks: async () => endpoint.requests.length > before.deliveries,
        purges: async () => cache.requests.length > before.purges,
      }
      return { status, done }
    },
  }
}

type Deployment = Awaited<ReturnType<typeof makeDeployment>>

async function readReadiness({ app }: Process): Promise<{ names: string[]; text: string }> {
  const answer = await fetch(`http://127.0.0.1:${app.operationsPort}/readyz`)
  const text = await answer.text()
  const { failing = [] } = JSON.parse(text) as { failing?: { name: string }[] }
  assert.equal(answer.status, failing.length === 0 ? 200 : 503, text)
  return { names: failing.map(({ name }) => name).sort(), text }
}

async function untilReady({ processes }: Deployment): Promise<void> {
  for (const process of processes) {
    let seen = ''
    await eventually(async () => {
      seen = (await readReadiness(process)).text
      return seen === '{"status":"ok"}'
    }).catch((error) => {
      throw new Error(`${process.role} is not ready: ${seen}`, { cause: error })
    })
  }
}

/** Each process names what it lacks, and why, in the words of the cell. */
async function assertNamed(process: Process, { readyz, reason }: Cell, what: string): Promise<void> {
  let seen = ''
  await eventually(async () => {
    const { names, text } = await readReadiness(process)
    seen = text
    assert.doesNotMatch(text, /unknown|undefined|\[object/i)
    return names.join() === readyz.toSorted().join() && (readyz.length === 0 || reason.test(text))
  }).catch((error) => {
    throw new Error(`${what}: ${process.role} says ${seen}, and not ${readyz} with ${reason}`, { cause: error })
  })
}

async function assertDone({ done }: Awaited<ReturnType<Deployment['work']>>, works: readonly Work[], what: string): Promise<void> {
  for (const work of works) await eventually(done[work], { what: `${what}: ${work}` })
}

async function tryOutage(
  deployment: Deployment,
  dependency: Dependency,
  moment: Moment,
  outage: { begin: () => Promise<void>; end: () => Promise<void> },
) {
  const { roles, clock, start, stop } = deployment
  const what = `${dependency}, ${moment}, ${roles.join()}`
  const shopper = await deployment.prepare()
  await assertDone(await deployment.work(shopper), WORKS, `before ${what}`)
  const next = await deployment.prepare()
  if (moment === 'at start') await stop()
  await outage.begin()
  const cells = new Map(roles.map((role) => [role, expected(role, dependency, moment)]))
  if (moment === 'at start') {
    for (const role of roles) {
      const cell = cells.get(role)
      if (cell?.ends)
        await assert.rejects(start(role), (error: Error) => cell.reason.test(`${(error as { code?: string }).code} ${error.message}`), what)
      else await start(role)
    }
  }
  const stopped = new Set([...cells.values()].flatMap(({ stops }) => stops))
  const during = await deployment.work(next)
  try {
    assert.equal(during.status, stopped.has('orders') ? 503 : 201, what)
    await assertDone(
      during,
      WORKS.filter((work) => !stopped.has(work)),
      what,
    )
    clock.aheadMs = 61_000
    for (const process of deployment.processes) await assertNamed(process, cells.get(process.role) as Cell, what)
    for (const work of stopped) assert.equal(await during.done[work](), false, `${what}: ${work} continues`)
  } finally {
    await outage.end()
    clock.aheadMs = 0
  }
  if (moment === 'at start') for (const role of roles) if (cells.get(role)?.ends) await start(role)
  await untilReady(deployment)
  const isPlaced = !stopped.has('orders')
  await assertDone(isPlaced ? during : await deployment.work(next), WORKS, `after ${what}`)
}

for (const roles of [ROLES, ['all']] as const) {
  const how = roles.length === 1 ? 'a process with all roles' : 'a process for each role'
  test(`${how} names the dependency that is unavailable and stops only its own part`, {
    skip: NO_NATS || NO_TMPFS,
    concurrency: false,
  }, async (t) => {
    const s3 = await startS3Server(t)
    Object.assign(process.env, s3.env)
    const deployment = await makeDeployment(t, roles, { nats: await startNatsServer(t), s3 })
    for (const role of roles) await deployment.start(role)
    const only = process.env.TEST_DEPENDENCY?.split(',')
    for (const dependency of DEPENDENCIES.filter((each) => only?.includes(each) ?? true)) {
      let outage: { begin: () => Promise<void>; end: () => Promise<void> }
      if (dependency === 'disk') {
        const disk = join(deployment.dataDir, 'disk')
        assert.equal(mountTmpfs(t, disk, 16), null)
        await deployment.stop()
        deployment.useDisk(disk)
        for (const role of roles) await deployment.start(role)
        let ballast = ''
        outage = {
          begin: async () => {
            ballast = fillDisk(disk)
          },
          end: async () => rmSync(ballast),
        }
      } else {
        const gate = deployment.gates[dependency]
        outage = { begin: () => gate.refuse(), end: () => gate.listen() }
      }
      for (const moment of MOMENTS) await t.test(`${dependency}, ${moment}`, () => tryOutage(deployment, dependency, moment, outage))
    }
  })
}

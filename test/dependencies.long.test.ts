import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { createPartition } from '../src/app/create-topic.ts'
import { openLake } from '../src/app/open-lake.ts'
import { type App, createApp } from '../src/app.ts'
import { createEncryption } from '../src/auth/store-secret.ts'
import { CATALOGUE_EVENT_TYPES } from '../src/catalogue/catalogue-event.ts'
import { recordProductEvents } from '../src/catalogue/change-catalogue.ts'
import { productTag } from '../src/catalogue/events.ts'
import { type Config, ROLES, type Role, readConfig } from '../src/config.ts'
import { sql } from '../src/db/sql.ts'
import { inTransaction } from '../src/db/transaction.ts'
import { queryLake } from '../src/lake/lake-query.ts'
import { ORDER_EVENT_TYPES } from '../src/orders/events.ts'
import { CATALOGUE, ORDERS } from '../src/topic/partitions.ts'
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
import { makeTestFolder } from './test-folder.ts'
import { fillDisk, mountTmpfs, NO_TMPFS } from './tmpfs.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

test('the table of what stops without a dependency is the one that is tested', () => {
  assert.ok(OPERATIONS.includes(renderTable()), `docs/operate/monitor.md lacks\n${renderTable()}`)
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
  const dataDir = makeTestFolder(t)
  const through = (url: string) => Object.assign(new URL(url), { host: new URL(gates.database.url).host }).href
  const { api, stream, owner } = database.addresses
  const environment = {
    ...{ DATABASE_URL: through(api), DATABASE_STREAM_URL: through(stream), DATABASE_OWNER_URL: through(owner) },
    ...{
      NATS_URL: gates.broker.url.replace(/\/$/, ''),
      STOREFRONT_SECRET: TEST_SECRET,
      DATA_DIR: dataDir,
      SMTP_URL: gates['mail server'].url,
    },
    ...{ PORT: '0', OPS_PORT: '0', RATE_LIMITS: 'off', LAKE_FLUSH_SECONDS: '1', WEBHOOK_ALLOW_PRIVATE: 'on' },
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
  const topicOptions = { pool, url: database.url, logger: pino({ level: 'silent' }) }
  const topics = [await createPartition(ORDERS, direct(), topicOptions), await createPartition(CATALOGUE, direct(), topicOptions)] as const
  onCleanup(t, async () => void (await Promise.all(topics.map((topic) => topic.stop()))))
  const encryption = createEncryption(TEST_SECRET, 'webhook secret')
  await addEndpoint(pool, encryption, {
    url: endpoint.url,
    eventTypes: [...ORDER_EVENT_TYPES, ...CATALOGUE_EVENT_TYPES],
    isPrivateAllowed: true,
  })

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
  const mailTexts = () => {
    if (config.smtpUrl !== null) return smtp.mails.map(({ text }) => text ?? '')
    const names = readdirSync(config.dataDir, { recursive: true, encoding: 'utf8' }).filter((name) => /^mail\/[^.].*\.eml$/.test(name))
    return names.map((name) => readFileSync(join(config.dataDir, name), 'utf8'))
  }
  const apiOf = () => caller(processes.find(({ role }) => role === 'api' || role === 'all')?.app.server ?? assert.fail('no API'))

  /** The events among these that have a row in the lake's tables. */
  const findInLake = async (ids: readonly string[]) => {
    const lake = await openLake(direct())
    const list = ids.map((id) => `'${id}'`).join()
    const select = ['order_events', 'catalogue_events'].map((table) => `select event_id from ${table} where event_id in (${list})`)
    try {
      return (await queryLake(lake, select.join(' union '))).rows.map(([id]) => id)
    } finally {
      lake.close()
    }
  }

  return {
    ...{ processes, clock, gates, roles, start, stop, dataDir },
    /** Mails and lake are files on this disk from the next start on. */
    useDisk(folder: string) {
      config = { ...config, dataDir: folder, smtpUrl: null, lakeBucket: null }
    },
    /** The token of a new customer: one token expires before the last try of a slow machine. */
    addCustomer: async () => (await register(apiOf())).token,
    /** Products, one for each work; their own events and purges are done. */
    async prepare(works: number): Promise<string[]> {
      const products = await Promise.all(Array.from({ length: works }, async () => (await addProduct(pool)).id))
      await eventually(
        async () => {
          const { rows } = await pool.query<{ left: number }>(`select (select count(*) from catalogue_changes)
            + (select count(*) from cache_purges) as left`)
          return cache.requests.length > 0 && rows[0]?.left === 0
        },
        { what: 'the first purges' },
      )
      return products
    },
    /**
     * A customer's order and a change of a product. Each kind of work tells for which of the two it is done, by the
     * ids of their events.
     */
    async work({ token, products }: Shop) {
      const product = products.pop() ?? assert.fail('no product is left')
      const before = await Promise.all(topics.map((topic) => topic.newestSequence()))
      const seen = { deliveries: endpoint.requests.length, purges: cache.requests.length }
      const hasApi = processes.some(({ role }) => role === 'api' || role === 'all')
      const body = { items: [{ product_id: product, quantity: 1 }] }
      const { status, json: order } = hasApi ? await apiOf()('POST', '/orders', { token, body }) : { status: 503, json: null }
      const changed = await inTransaction(pool, async (tx) => {
        await tx.query(sql`update products set name = ${crypto.randomUUID()} where id = ${product}`)
        // A change without an event would not reach the stream of the catalogue.
        assert.equal(await recordProductEvents(tx, [product], null), 1)
        const { rows } = await tx.query<{ id: string }>(
          sql`select product_id || '.' || max(version) as id from product_events where product_id = ${product} group by product_id`,
        )
        return rows[0]?.id ?? ''
      })
      const placed = status === 201 ? [`${order.id}.1`] : []
      const ids = [...placed, changed]
      const among = (texts: readonly string[]) => (id: string) => texts.some((text) => text.includes(`"${id}"`))
      const done: Record<Work, () => Promise<boolean[]>> = {
        orders: async () => [status === 201],
        events: async () => {
          const read = await Promise.all(topics.map((topic, index) => topic.read(before[index] ?? 0, 100)))
          return ids.map(among(read.flat().map((message) => JSON.stringify(message))))
        },
        mails: async () => placed.map(() => mailTexts().some((text) => text.includes(String(order.number)))),
        lake: async () => {
          const found = await findInLake(ids)
          return ids.map((id) => found.includes(id))
        },
        webhooks: async () => ids.map(among(endpoint.requests.slice(seen.deliveries).map((request) => request.body))),
        purges: async () => [
          cache.requests.slice(seen.purges).some(({ headers }) => String(headers['surrogate-key']).includes(productTag(product))),
        ],
      }
      return { status, done }
    },
  }
}

interface Shop {
  token: string
  products: string[]
}

/**
 * A connection on which nothing moves is given up after 45 seconds, and a mail on it is retried with growing pauses.
 */
const PATIENCE_MS = 240_000

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
      return (JSON.parse(seen) as { status: string }).status === 'ok'
    }).catch((error) => {
      throw new Error(`${process.role} is not ready: ${seen}`, { cause: error })
    })
  }
}

/** Each process names what it lacks, and why, in the words of the cell. */
async function assertNamed(process: Process, { readyz, reason }: Cell, what: string): Promise<void> {
  let seen = ''
  await eventually(
    async () => {
      const { names, text } = await readReadiness(process)
      seen = text
      assert.doesNotMatch(text, /unknown|undefined|\[object/i)
      return names.join() === readyz.toSorted().join() && (readyz.length === 0 || reason.test(text))
    },
    { timeoutMs: PATIENCE_MS },
  ).catch((error) => {
    throw new Error(`${what}: ${process.role} says ${seen}, and not ${readyz} with ${reason}`, { cause: error })
  })
}

async function assertDone({ done }: Awaited<ReturnType<Deployment['work']>>, works: readonly Work[], what: string): Promise<void> {
  for (const work of works)
    await eventually(async () => (await done[work]()).every(Boolean), { what: `${what}: ${work}`, timeoutMs: PATIENCE_MS })
}

interface Outage {
  begin: () => Promise<void>
  end: () => Promise<void>
}

async function tryOutage(deployment: Deployment, shop: Shop, dependency: Dependency, moment: Moment, outage: Outage) {
  const { roles, clock, start, stop } = deployment
  const what = `${dependency}, ${moment}, ${roles.join()}`
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
  const during = await deployment.work(shop)
  try {
    assert.equal(during.status, stopped.has('orders') ? 503 : 201, what)
    await assertDone(
      during,
      WORKS.filter((work) => !stopped.has(work)),
      what,
    )
    clock.aheadMs = 61_000
    for (const process of deployment.processes) await assertNamed(process, cells.get(process.role) as Cell, what)
    for (const work of stopped) assert.ok(!(await during.done[work]()).includes(true), `${what}: ${work} continues`)
  } finally {
    await outage.end()
    clock.aheadMs = 0
  }
  if (moment === 'at start') for (const role of roles) if (cells.get(role)?.ends) await start(role)
  await untilReady(deployment)
  const isPlaced = !stopped.has('orders')
  await assertDone(
    during,
    WORKS.filter((work) => isPlaced || work !== 'orders'),
    `after ${what}`,
  )
  if (!isPlaced) await assertDone(await deployment.work(shop), WORKS, `again after ${what}`)
}

/** The outages of a dependency that can be had here: a disk cannot hang. */
async function outagesOf(t: TestContext, deployment: Deployment, dependency: Dependency): Promise<[Moment, Outage][]> {
  if (dependency !== 'disk') {
    const gate = deployment.gates[dependency]
    const refusal = { begin: () => gate.refuse(), end: () => gate.listen() }
    const silence = { begin: async () => gate.die(), end: () => gate.restart() }
    return MOMENTS.map((moment) => [moment, moment === 'hanging' ? silence : refusal])
  }
  const disk = join(deployment.dataDir, 'disk')
  assert.equal(mountTmpfs(t, disk, 16), null)
  await deployment.stop()
  deployment.useDisk(disk)
  for (const role of deployment.roles) await deployment.start(role)
  let ballast = ''
  const begin = async () => {
    ballast = fillDisk(disk)
  }
  return MOMENTS.filter((moment) => moment !== 'hanging').map((moment) => [moment, { begin, end: async () => rmSync(ballast) }])
}

test('each role without each dependency', { skip: NO_NATS || NO_TMPFS, concurrency: 2 }, async (t) => {
  const s3 = await startS3Server(t)
  Object.assign(process.env, s3.env)
  const only = process.env.TEST_DEPENDENCY?.split(',')
  const dependencies = DEPENDENCIES.filter((each) => only?.includes(each) ?? true)
  const tryRoles = async (own: TestContext, roles: readonly (Role | 'all')[]) => {
    const deployment = await makeDeployment(own, roles, { nats: await startNatsServer(own), s3 })
    for (const role of roles) await deployment.start(role)
    const products = await deployment.prepare(1 + dependencies.length * MOMENTS.length * 2)
    await assertDone(await deployment.work({ token: await deployment.addCustomer(), products }), WORKS, 'before')
    for (const dependency of dependencies)
      for (const [moment, outage] of await outagesOf(own, deployment, dependency))
        await own.test(`${dependency}, ${moment}`, async () =>
          tryOutage(deployment, { token: await deployment.addCustomer(), products }, dependency, moment, outage),
        )
  }
  await Promise.all([
    t.test('a process for each role names the dependency that is unavailable and stops only its own part', (own) => tryRoles(own, ROLES)),
    t.test('a process with all roles names the dependency that is unavailable and stops only its own part', (own) =>
      tryRoles(own, ['all']),
    ),
  ])
})

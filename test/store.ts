import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { InjectOptions } from 'fastify'
import pino, { type Logger } from 'pino'
import { type App, createApp } from '../src/app.ts'
import type { RunCommand } from '../src/audit/audit-runner.ts'
import type { HashCost } from '../src/auth/passwords/password.ts'
import { type Config, readConfig } from '../src/config.ts'
import type { DatabaseAddresses } from '../src/db/addresses.ts'
import type { Pool } from '../src/db/pool.ts'
import type { HttpServer } from '../src/http/http-server.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { assertDocumented } from './documented-answers.ts'
import { eventually } from './eventually.ts'
import { assertHoldsOne } from './held-connections.ts'
import { makeStreamDatabase } from './stream-harness.ts'

/** Most tests sign in without being about hashes, which would be a tenth of the run. */
const CHEAP_HASHES: HashCost = { memoryKib: 64, passes: 1, parallelism: 1 }

export const TEST_SECRET = 'a secret for tests, long enough to be one'

/** Sends requests without a network. */
export interface Requests {
  /** `token` goes into `Authorization`, an object as body becomes JSON. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  /** Like `call`, for a request that must succeed with the one success of its route. Returns the body. */
  ok(method: string, path: string, options?: CallOptions): Promise<Answer['json']>
}

export interface TestStore extends Requests {
  app: App
  server: HttpServer
  /** The port at which the server listens. */
  port: number
  /** The server's origin by the name localhost, for browsers. */
  localOrigin: string
  /** The test's own connections, as superuser; the store connects with restricted roles. */
  pool: Pool
  config: Config
  /** The database's address for the superuser, as `pool`. */
  url: string
  /** The addresses of its database for each role. */
  addresses: DatabaseAddresses
  /** Whether the database has the replication slot of the order stream. */
  hasSlot: boolean
  register(overrides?: { email?: string; password?: string; name?: string }): Promise<Account>
  addProduct(overrides?: Partial<NewProduct>): Promise<NewProduct & { id: string }>
  /** The available stock of each product; null where it is not tracked. */
  readStock(...products: { id: string }[]): Promise<(number | null | undefined)[]>
}

export interface CallOptions {
  token?: string
  body?: unknown
  /** Sent unchanged, instead of `body`. */
  raw?: string | Buffer
  headers?: Record<string, string>
  /** The client's IP address. */
  from?: string
}

export interface Answer {
  status: number
  headers: Record<string, string | undefined>
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the answer holds and asserts on it
  json: any
}

/** An account, whose requests have its token. */
export interface Account extends Requests {
  id: string
  email: string
  password: string
  token: string
  refreshToken: string
}

export interface NewProduct {
  sku: string
  name: string
  category: string
  amount: number
  currency: string
  /** Units in stock; null: not tracked. */
  stock: number | null
}

export type StoreOverrides = Partial<Config> & {
  now?: () => Date
  logger?: Logger
  /** Hashes passwords at this cost, a cheap one by default; undefined: at the store's own. */
  hashCost?: HashCost | undefined
  /** Starts commands for the console; none by default. */
  runCommand?: RunCommand
  /** Fills the database first; no stream publishes what it writes. */
  fill?: (database: TestDatabase) => Promise<void>
  /** Whether the database has the replication slot of the order stream: with a role beside `api` by default. */
  hasSlot?: boolean
  /** Whether the test leaves work that the pipeline cannot do, such as mails of rows that `fill` has made up. */
  leavesWork?: boolean
  /** Receives the store before its start, for example to inject a fault. */
  beforeStart?: (app: App) => void
}

const testLogger = () => pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' })

/**
 * Starts a store on a new database, through the composition root of the product. Only the API runs unless `roles` has
 * more. After the test the store is stopped, and the test fails when the pipeline has left work undone.
 */
export async function startStore(t: Cleanup, overrides: StoreOverrides = {}): Promise<TestStore> {
  const {
    now,
    logger = testLogger(),
    runCommand,
    fill,
    leavesWork = false,
    beforeStart,
    hashCost,
    hasSlot = overrides.roles?.some((role) => role !== 'api') ?? false,
    ...settings
  } = {
    hashCost: CHEAP_HASHES,
    ...overrides,
  }
  // The template already has the schema, the queues and the rights.
  const database = hasSlot ? await makeStreamDatabase(t, fill) : await createTestDatabase(t)
  if (!hasSlot) await fill?.(database)
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-test-'))
  const environment = {
    DATABASE_URL: database.addresses.api,
    ...(hasSlot && { DATABASE_STREAM_URL: database.addresses.stream, DATABASE_OWNER_URL: database.addresses.owner }),
    STOREFRONT_SECRET: TEST_SECRET,
    DATA_DIR: dataDir,
    PORT: '0',
    OPS_PORT: 'off',
    RATE_LIMITS: 'off',
  }
  const given: Config = { ...readConfig(environment), baseUrl: 'http://localhost:3000', roles: ['api'], databasePoolSize: 20, ...settings }
  const config: Config = { ...given, isNetworkLimited: given.isRateLimited, ...settings }
  const app = await createApp({
    config,
    logger,
    hashCost,
    ...(now === undefined ? {} : { now }),
    ...(runCommand === undefined ? {} : { runCommand }),
  })
  onCleanup(t, async () => {
    try {
      if (!leavesWork && config.roles.includes('stream') && config.nats === null) await assertNothingLeft(database.pool, config)
    } finally {
      await app.stop()
      rmSync(dataDir, { recursive: true, force: true })
    }
  })
  beforeStart?.(app)
  await app.start()
  const { server } = app
  if (server === null) throw new Error('a test store needs the role api')
  const call = caller(server)
  return {
    app,
    server,
    get port() {
      return portOf(server)
    },
    get localOrigin() {
      return `http://localhost:${portOf(server)}`
    },
    pool: database.pool,
    config,
    url: database.url,
    addresses: database.addresses,
    hasSlot,
    ...requestsOf(call),
    register: (account) => register(call, account),
    addProduct: (product) => addProduct(database.pool, product),
    readStock: (...products) => readStock(database.pool, ...products),
  }
}

/** 0 while the server does not listen: a copy of a stopped store reads it, too. */
function portOf({ server }: HttpServer): number {
  return (server.address() as AddressInfo | null)?.port ?? 0
}

/** Starts a second store on the same database, as another process would. It is stopped before the first. */
export async function startSecondProcess(
  t: Cleanup,
  store: TestStore,
  overrides: Omit<StoreOverrides, 'hasSlot'> = {},
): Promise<Requests & Pick<TestStore, 'app'>> {
  const { now, logger = testLogger(), runCommand, hashCost, ...settings } = { hashCost: CHEAP_HASHES, ...overrides }
  const config = { ...store.config, roles: ['api'] as const, ...settings }
  if (config.roles.includes('stream') && !store.hasSlot) throw new Error('start the first store with `hasSlot: true`')
  const app = await createApp({
    config,
    logger,
    hashCost,
    ...(now === undefined ? {} : { now }),
    ...(runCommand === undefined ? {} : { runCommand }),
  })
  onCleanup(t, () => app.stop())
  await app.start()
  if (app.server === null) throw new Error('a second process needs the role api')
  return { app, ...requestsOf(caller(app.server)) }
}

/** Requests that have this token unless they name another. */
export function requestsOf(send: TestStore['call'], token?: string): Requests {
  const call: Requests['call'] = (method, path, options) => send(method, path, token === undefined ? options : { token, ...options })
  return {
    call,
    async ok(method, path, options) {
      const { status, text, json } = await call(method, path, options)
      assert.ok(status >= 200 && status < 300, `${method} ${path}: ${status} ${text}`)
      return json
    },
  }
}

export function caller(server: HttpServer): TestStore['call'] {
  return async (method, url, { token, body, raw, headers = {}, from } = {}) => {
    const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body))
    const answer = await assertHoldsOne(`${method} ${url}`, () =>
      server.inject({
        method: method as NonNullable<InjectOptions['method']>,
        url,
        headers: {
          ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...headers,
        },
        ...(payload === undefined ? {} : { payload }),
        ...(from === undefined ? {} : { remoteAddress: from }),
      }),
    )
    const isJson = /[/+]json\b/.test(String(answer.headers['content-type']))
    const received: Answer = {
      status: answer.statusCode,
      headers: answer.headers as Answer['headers'],
      text: answer.body,
      // An answer to HEAD has a type and no body.
      json: isJson && answer.body !== '' ? JSON.parse(answer.body) : undefined,
    }
    await assertDocumented(method, url, received)
    return received
  }
}

export async function register(
  call: TestStore['call'],
  overrides: { email?: string; password?: string; name?: string } = {},
): Promise<Account> {
  const account = { email: `${randomUUID()}@example.com`, password: 'a long enough passphrase', ...overrides }
  const { status, json, text } = await call('POST', '/auth/register', { body: account })
  if (status !== 201) throw new Error(`register: ${status} ${text}`)
  return {
    id: json.user.id,
    email: json.user.email,
    password: account.password,
    token: json.access_token,
    refreshToken: json.refresh_token,
    ...requestsOf(call, json.access_token),
  }
}

/** A product written straight into the database. */
export async function addProduct(pool: Pool, overrides: Partial<NewProduct> = {}): Promise<NewProduct & { id: string }> {
  const id = crypto.randomUUID()
  const product: NewProduct = {
    sku: `SKU-${id}`,
    name: 'A lamp',
    category: 'lamps',
    amount: 1_250,
    currency: 'EUR',
    stock: 100,
    ...overrides,
  }
  await pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
    values ($1, $2, $3, $4, $5, $6, $7)`,
    [id, product.sku, product.name, product.category, product.amount, product.currency, product.stock === null || product.stock > 0],
  )
  await pool.query('insert into inventory (product_id, available) values ($1, $2)', [id, product.stock])
  // Otherwise `storefront verify` would find a product without an event.
  await pool.query('select record_product_events(array[$1::uuid], null)', [id])
  return { id, ...product }
}

/** The available stock of each product; null where it is not tracked. */
export async function readStock(pool: Pool, ...products: { id: string }[]): Promise<(number | null | undefined)[]> {
  const { rows } = await pool.query<{ product_id: string; available: number | null }>('select product_id, available from inventory')
  return products.map(({ id }) => rows.find((row) => row.product_id === id)?.available)
}

/** Every committed version of every order is on the topic, and no mail waits. */
async function assertNothingLeft(pool: Pool, config: Config): Promise<void> {
  await eventually(
    async () => {
      const { rows } = await pool.query<{ unread: number; parked: number }>(
        `select
          (select coalesce(sum(version), 0) from orders) - (select count(*) from topic_messages) as unread,
          (select count(*) from email_deliveries where status = 'queued') as parked`,
      )
      return Number(rows[0]?.unread) <= 0 && (Number(rows[0]?.parked) === 0 || !config.roles.includes('email'))
    },
    { what: 'nothing left over: no unread order change, no waiting mail' },
  )
}

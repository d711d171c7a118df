import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type DatabaseAddresses, roleOf } from '../src/db/addresses.ts'
import { startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { createPool, type Pool } from '../src/db/pool.ts'
import { BUILT_IN_SETTINGS, COMMAND_BOUNDS, SERVING_BOUNDS, SESSION_SETTINGS } from '../src/db/session-settings.ts'
import { identifier, literal, sql } from '../src/db/sql.ts'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { debianPostgresMissing, startDebianPostgres } from './debian-postgres.ts'
import { eventually, retryUntil } from './eventually.ts'
import { HOSTILE, LEFT } from './hostile-settings.ts'
import { queryFolder } from './lake-harness.ts'
import { untilDelivered } from './shopping.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront, serve } from './store-process.ts'

/** A server whose configuration is against the store, with a database and roles that have nothing set yet. */
interface HostileServer {
  addresses: DatabaseAddresses
  /** For the superuser. */
  admin: Pool
}

/** A role or a database may name a thing that does not exist yet, the server may not. */
const NOT_OF_THE_SERVER = [
  'default_table_access_method',
  'pg_trgm.similarity_threshold',
  'pg_trgm.word_similarity_threshold',
  'session_replication_role',
  'client_encoding',
]

const SERVERS: { name: string; skip: string | false; start: (t: TestContext) => Promise<HostileServer> }[] = [
  {
    name: 'PostgreSQL 18',
    skip: false,
    async start(t) {
      const folder = makeDataFolder(t)
      // Its settings are known only when it runs.
      const plain = await startEmbeddedPostgres(folder, { settings: { fsync: 'off' } })
      const settings = await within(plain.url, serverSettings)
      await plain.stop()
      const server = await startEmbeddedPostgres(folder, { settings: { fsync: 'off', ...settings } })
      onCleanup(t, () => server.stop())
      return { addresses: server.addresses, admin: openPool(t, server.url) }
    },
  },
  {
    name: 'PostgreSQL 15',
    skip: debianPostgresMissing,
    async start(t) {
      const server = await startDebianPostgres(t, { fsync: 'off', wal_level: 'logical' })
      const { url } = await server.createDatabase('C.UTF-8')
      const admin = openPool(t, url)
      for (const [name, value] of Object.entries(await serverSettings(admin)))
        await admin.query(sql`alter system set ${identifier(name)} = ${literal(value)}`)
      await admin.query('create role shop_api login; create role shop_stream login replication; select pg_reload_conf()')
      const as = (role: string) => Object.assign(new URL(url), { username: role }).href
      return { addresses: { api: as('shop_api'), stream: as('shop_stream'), owner: url }, admin }
    },
  },
]

function openPool(t: TestContext, url: string): Pool {
  const pool = createPool({ url, size: 2, applicationName: 'test', onError: () => {}, bounds: COMMAND_BOUNDS })
  onCleanup(t, () => pool.end())
  return pool
}

async function within<T>(url: string, work: (pool: Pool) => Promise<T>): Promise<T> {
  const pool = createPool({ url, size: 1, applicationName: 'test', onError: () => {} })
  try {
    return await work(pool)
  } finally {
    await pool.end()
  }
}

/** The hostile settings that this server's version has, and the opposite of each switch of the planner. */
async function hostileSettings(admin: Pool): Promise<Record<string, string>> {
  const { rows } = await admin.query<{ name: string; boot_val: string }>('select name, boot_val from pg_settings')
  const known = new Set(rows.map(({ name }) => name))
  const switches = rows
    .filter(({ name }) => name.startsWith('enable_'))
    .map(({ name, boot_val }) => [name, boot_val === 'on' ? 'off' : 'on'] as const)
  const own = Object.entries(HOSTILE).filter(([name]) => known.has(name) || name.includes('.'))
  return Object.fromEntries([...own, ...switches])
}

async function serverSettings(admin: Pool): Promise<Record<string, string>> {
  const all = Object.entries(await hostileSettings(admin))
  return Object.fromEntries(all.filter(([name]) => !NOT_OF_THE_SERVER.includes(name)))
}

const rolesOf = ({ api, stream, owner }: HostileServer['addresses']) => [api, stream, owner].map(roleOf)

/** Sets everything against the store: the database, each role, and each role in the database. */
async function turnAgainst({ addresses, admin }: HostileServer): Promise<Record<string, string>> {
  const settings = await hostileSettings(admin)
  const database = new URL(addresses.api).pathname.slice(1)
  // Another implementation of tables is not part of PostgreSQL: the same one by another name.
  await admin.query('create access method hostile type table handler heap_tableam_handler')
  const roles = rolesOf(addresses)
  for (const [name, value] of Object.entries(settings)) {
    const change = sql`set ${identifier(name)} = ${literal(value)}`
    await admin.query(sql`alter database ${identifier(database)} ${change}`)
    for (const role of roles) {
      await admin.query(sql`alter role ${identifier(role)} ${change}`)
      await admin.query(sql`alter role ${identifier(role)} in database ${identifier(database)} ${change}`)
    }
  }
  // What only a superuser may set, these may too: otherwise the store refuses to start, as another test shows.
  for (const role of roles)
    await admin.query(
      sql`grant set on parameter session_replication_role, zero_damaged_pages, ignore_checksum_failure to ${identifier(role)}`,
    )
  return settings
}

const PRODUCTS = 80
const MAX_TRIES = 20
const PRICE = 1_250

for (const { name, skip, start } of SERVERS) {
  test(`a store works as ever where server, database and roles of ${name} are set against it`, { skip }, async (t) => {
    const server = await start(t)
    const { admin, addresses } = server
    const settings = await turnAgainst(server)
    const { path: dataDir } = makeDataFolder(t, 'store')
    const env = {
      DATABASE_URL: addresses.api,
      DATABASE_STREAM_URL: addresses.stream,
      DATABASE_OWNER_URL: addresses.owner,
      STOREFRONT_SECRET: TEST_SECRET,
      DATA_DIR: dataDir,
      LAKE_FLUSH_SECONDS: '1',
    }
    const run = async (...args: string[]) => {
      const result = await runStorefront(t, args, { env })
      assert.deepEqual([result.status, result.stderr], [0, ''], `${args.join(' ')}: ${result.stdout}`)
      return result.stdout
    }

    await t.test('each kind of session has our values', async () => {
      for (const [url, bounds] of [
        [addresses.api, SERVING_BOUNDS],
        [addresses.stream, COMMAND_BOUNDS],
        [addresses.owner, COMMAND_BOUNDS],
      ] as const) {
        const pool = createPool({ url, size: 1, applicationName: 'test', onError: () => {}, bounds })
        // Loads the extension, whose settings exist only then.
        await pool.query(`select 'a' % 'b'`).catch(() => {})
        const { rows } = await pool
          .query<{ name: string; now: string; hostile: string }>(
            `select name, setting as now, reset_val as hostile from pg_settings where name = any($1)`,
            [Object.keys(settings)],
          )
          .finally(() => pool.end())
        const kept = rows.filter(({ now, hostile }) => now === hostile).map(({ name }) => name)
        // The address itself asks for the encoding.
        assert.deepEqual(
          kept.filter((name) => name !== 'client_encoding'),
          [],
        )
        for (const [name, value] of Object.entries(SESSION_SETTINGS)) {
          const row = rows.find((each) => each.name === name)
          if (row !== undefined && !name.startsWith('tcp_')) assert.equal(row.now, value, name)
        }
      }
    })

    await run('migrate')
    // An administrator adds schemas later: the store stays where it is, and a table of the same name is not taken for
    // its own.
    await admin.query('create schema decoy; create table decoy.orders (id text); create table decoy.products (id text)')
    await admin.query('grant usage on schema decoy to public; grant select on all tables in schema decoy to public')
    for (const role of rolesOf(addresses)) await admin.query(sql`alter role ${identifier(role)} set search_path = decoy, pg_catalog`)

    const products = Array.from({ length: PRODUCTS }, (_, index) => ({
      sku: `lantern-${index}`,
      name: `lantern ${'of brass '.repeat(index % 7)}${index}`,
      description: 'lantern '.repeat(index % 5),
      category: 'Lamps',
      price: { amount: PRICE + index, currency: 'EUR' },
      stock: 1_000,
    }))
    const file = join(dataDir, '..', 'products.ndjson')
    writeFileSync(file, products.map((product) => JSON.stringify(product)).join('\n'))
    await run('catalogue', 'import', file)

    const store = await serve(t, { env })
    // A busy machine may answer 503; never 500.
    const call = async (method: string, path: string, options: { token?: string; body?: unknown } = {}) => {
      const key = crypto.randomUUID()
      for (let tries = 1; ; tries++) {
        const answer = await callOnce(method, path, key, options)
        if (answer.status !== 503 || tries === MAX_TRIES) return answer
      }
    }
    const callOnce = async (method: string, path: string, key: string, { token, body }: { token?: string; body?: unknown }) => {
      const answer = await fetch(new URL(path, store.url), {
        method,
        headers: {
          'idempotency-key': key,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the answer holds and asserts on it
      return { status: answer.status, json: (await answer.json()) as any }
    }

    for (const query of ['q=lantern', 'sort=name', 'sort=price', 'sort=-created_at', 'q=lanterm']) {
      for (const limit of [1, 7, 100]) {
        const found: string[] = []
        for (let cursor = ''; found.length <= PRODUCTS; ) {
          const { status, json } = await call('GET', `/products?${query}&limit=${limit}${cursor && `&cursor=${cursor}`}`)
          assert.equal(status, 200, `${query} ${JSON.stringify(json)}`)
          found.push(...json.data.map(({ sku }: { sku: string }) => sku))
          if (!json.has_more) break
          cursor = encodeURIComponent(json.next_cursor)
        }
        const wanted = products.map(({ sku }) => sku)
        assert.deepEqual([found.length, new Set(found).symmetricDifference(new Set(wanted)).size], [PRODUCTS, 0], `${query}&limit=${limit}`)
      }
    }

    const { json: page } = await call('GET', '/products?limit=2&sort=price')
    const [lamp, other] = page.data as { id: string }[]
    assert.ok(lamp !== undefined && other !== undefined)
    const customers = await Promise.all(
      ['ada', 'bob', 'cem', 'dag'].map(async (name) => {
        const account = { email: `${name}@example.com`, password: 'a long enough passphrase', name }
        const { status, json } = await call('POST', '/auth/register', { body: account })
        assert.equal(status, 201, JSON.stringify(json))
        return json.access_token as string
      }),
    )
    // All of them want the same two products, in both orders.
    const orders: string[] = []
    const rounds = async (token: string) => {
      for (let round = 0; round < 10; round++) {
        const items = [lamp, other].map(({ id }) => ({ product_id: id, quantity: 1 }))
        const placed = await call('POST', '/orders', { token, body: { items: round % 2 === 0 ? items : items.toReversed() } })
        assert.equal(placed.status, 201, JSON.stringify(placed.json))
        assert.match(placed.json.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/)
        orders.push(placed.json.id)
        if (round % 2 === 1) continue
        const cancelled = await call('POST', `/orders/${placed.json.id}/cancel`, { token })
        assert.equal(cancelled.status, 200, JSON.stringify(cancelled.json))
      }
    }
    await Promise.all(customers.flatMap((token) => [rounds(token), rounds(token)]))
    const pages: string[] = []
    for (const token of customers)
      for (let cursor = ''; ; ) {
        const { json } = await call('GET', `/orders?limit=3${cursor && `&cursor=${cursor}`}`, { token })
        pages.push(...json.data.map(({ id }: { id: string }) => id))
        if (!json.has_more) break
        cursor = encodeURIComponent(json.next_cursor)
      }
    assert.deepEqual(pages.toSorted(), orders.toSorted())

    await untilDelivered(dataDir, orders)
    const [wanted] = (await admin.query<{ versions: number }>('select sum(version)::int as versions from public.orders')).rows
    await eventually(
      async () => {
        const { rows } = await queryFolder(join(dataDir, 'lake'), 'select count(distinct event_id) from order_events')
        return Number(rows[0]?.[0]) === wanted?.versions
      },
      { what: 'a row of the lake for each version', timeoutMs: 120_000 },
    )
    const { rows } = await admin.query(
      `select (select count(*) from public.dead_letters) + (select count(*) from public.catalogue_dead_letters) as dead,
        (select array_agg(distinct available::int) from public.inventory join public.products on product_id = id where price_amount <= ${PRICE + 1}) as left`,
    )
    assert.deepEqual(rows, [{ dead: 0, left: [1_000 - orders.length / 2] }])
    assert.equal((await call('GET', '/readyz')).status, 200)
    assert.deepEqual(
      store.logs.filter(({ level }) => level >= 50).map(({ msg }) => msg),
      [],
    )
    // Undecided (3) while what was written last is on its way.
    await retryUntil(() => run('verify'))

    // The one who set it learns of each.
    const doctor = await runStorefront(t, ['doctor', '--json'], { env })
    const found = (JSON.parse(doctor.stdout).checks as { check: string; status: string; found: string }[]).filter(
      ({ check }) => check === 'session settings',
    )
    assert.deepEqual(
      found.map(({ status }) => status),
      ['ok', 'ok', 'ok'],
    )
    const isDefault = ['jit', 'geqo', 'client_encoding', 'pg_trgm.similarity_threshold', 'pg_trgm.word_similarity_threshold']
    for (const { found: text } of found)
      assert.deepEqual(
        Object.keys(settings).filter((name) => !isDefault.includes(name) && !text.includes(`${name} = `)),
        [],
        text,
      )
    assert.equal(await store.end('SIGTERM'), 0)
  })

  test(`each setting that a session of ${name} can have is either set by the store or left for a reason`, { skip }, async (t) => {
    const { admin } = await start(t)
    const { rows } = await admin.query<{ name: string }>(
      `select name from pg_settings where context in ('user', 'superuser') and name not like '%.%' order by name`,
    )
    assert.ok(rows.length > 100)
    const ours = new Set([
      ...[...Object.keys(SESSION_SETTINGS), ...BUILT_IN_SETTINGS, 'search_path'],
      ...Object.keys(SERVING_BOUNDS).map((bound) => `${bound}_timeout`),
    ])
    const undecided = rows.map(({ name }) => name).filter((name) => !ours.has(name) && !name.startsWith('enable_'))
    assert.deepEqual(
      undecided.filter((name) => !LEFT.some(({ settings }) => settings.test(name))),
      [],
    )
    const untried = [...ours].filter((name) => !(name in HOSTILE) && name !== 'search_path')
    assert.deepEqual(untried, [], 'each has a hostile value')
  })
}

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { onCleanup } from './cleanup.ts'
import { MIGRATION_FILES } from './earlier-schema.ts'
import { openEarlierStore, release, shopAt, watchLocks } from './earlier-store.ts'
import { eventually } from './eventually.ts'
import { launch, runStorefront, serve } from './store-process.ts'

const PRODUCTS = 3_000
const ORDERS = 1_000
const PER_SECOND = 3
const CHANGE_MS = 200
/** Tens of milliseconds on an idle machine. Latencies are in docs/operations.md: the tests' machine is too busy for them. */
const MAX_LOCKED_MS = 2_000

/** Whether every product has what migrations give it, and every index can be used. */
async function assertUpgraded(admin: pg.Client) {
  const { rows } = await admin.query(
    `select
      (select array_agg(name order by name) from migrations) as names,
      (select count(*)::integer from products where not exists (select from product_slugs where product_id = id and retired_at is null)) as without_slug,
      (select count(*)::integer from products left join product_categories on product_id = id left join categories on categories.id = category_id
        where categories.name is distinct from category or product_categories.price_amount is distinct from products.price_amount) as without_category,
      (select count(*)::integer from pg_index where not indisvalid) as invalid_indexes`,
  )
  const names = MIGRATION_FILES.map((file) => file.replace('.sql', ''))
  assert.deepEqual(rows, [{ names, without_slug: 0, without_category: 0, invalid_indexes: 0 }])
}

test('an upgrade of release 0.1.0 refuses no customer and locks no table for long', { skip: release.skip }, async (t) => {
  const { server, bin, env, admin } = await openEarlierStore(t, { products: PRODUCTS, orders: ORDERS })
  const { shopping, apis } = await shopAt(t, { bin, env }, PER_SECOND)
  const locks = await watchLocks(t, `${server.address}/shop`)
  // Prices change meanwhile, as the previous release changes them.
  const migration = runStorefront(t, ['migrate'], { env })
  const ended = migration.then(() => true)
  for (let number = 1; !(await Promise.race([ended, delay(CHANGE_MS, false)])); number++)
    await admin.query('update products set price_amount = price_amount + 1 where sku = $1', [`SKU-${number % PRODUCTS}`])
  const { status, stderr } = await migration
  assert.equal(status, 0, stderr)
  const longest = await locks.stop()
  assert.ok(longest.ms < MAX_LOCKED_MS, `${longest.table} was locked for ${longest.ms} ms`)
  await assertUpgraded(admin)
  const answers = await shopping.stop()
  assert.deepEqual(
    answers.filter(({ isGood }) => !isGood),
    [],
  )
  const times = answers.map(({ ms }) => ms).toSorted((a, b) => a - b)
  const p99 = times[Math.floor(times.length * 0.99)] ?? Number.NaN
  t.diagnostic(`${answers.length} answers, p99 ${p99.toFixed(0)} ms; ${longest.table} was locked for ${longest.ms.toFixed(0)} ms`)
  for (const api of apis) assert.equal(await api.end('SIGTERM'), 0)
  const api = await serve(t, { env, args: ['--role', 'api'] })
  assert.equal((await fetch(`${api.url}/products?category=category-7&attr=material%3Dwood`)).status, 200)
})

test('an upgrade that is killed at any moment continues with the next one', { skip: release.skip }, async (t) => {
  const { env, admin } = await openEarlierStore(t, { products: 2_000, orders: 0 })
  const reader = new pg.Client({ connectionString: env.DATABASE_OWNER_URL, application_name: 'pg_dump' })
  await reader.connect()
  onCleanup(t, () => reader.end())
  const is = (condition: string) => async () => (await admin.query(`select ${condition} as is_there`)).rows[0].is_there === true
  const ofIndex = `from pg_stat_activity where application_name = 'storefront-migrate' and query ~ '^(--.*\n)*create index concurrently'`
  const moments: Record<string, () => Promise<boolean>> = {
    'it has connected': is(`exists (select from pg_stat_activity where application_name = 'storefront-migrate')`),
    'some files are applied': is(`exists (select from migrations where name > '0036')`),
    'an index waits for a dump': is(`exists (select ${ofIndex} and wait_event_type = 'Lock')`),
    'an index waits for a dump, again': is(`exists (select ${ofIndex} and wait_event_type = 'Lock')`),
    'some slugs are there': is(`exists (select from product_slugs)`),
    'some categories are there': is(`exists (select from product_categories)`),
    'the last index is built': is(`to_regclass('products_currency_price_id_idx') is not null`),
  }
  for (const [moment, hasCome] of Object.entries(moments)) {
    const isDumping = moment.startsWith('an index')
    // A snapshot that holds no lock: only the indexes wait for it.
    if (isDumping) await reader.query('begin isolation level repeatable read; select 1')
    const migration = launch(['migrate'], { env })
    onCleanup(t, () => void migration.kill('SIGKILL'))
    const lines: string[] = []
    migration.stderr?.setEncoding('utf8').on('data', (text: string) => lines.push(text))
    const ended = once(migration, 'close')
    await eventually(hasCome, { what: moment, timeoutMs: 60_000, pauseMs: 5 })
    if (isDumping)
      await eventually(
        async () => /waiting for a lock: pid \d+ \(pg_dump, .*\) holds a snapshot that is older than the new index/.test(lines.join('')),
        {
          what: 'the line about the dump',
          timeoutMs: 30_000,
        },
      )
    migration.kill('SIGKILL')
    await ended
    // The server notices the end within a second.
    await eventually(is(`not exists (select from pg_stat_activity where application_name = 'storefront-migrate')`), {
      what: 'the end of the session',
    })
    if (isDumping) {
      assert.equal(await is(`exists (select from pg_index where not indisvalid)`)(), true, 'the killed build has left an index')
      await reader.query('commit')
    }
  }
  const results = await Promise.all([1, 2].map(() => runStorefront(t, ['migrate'], { env })))
  assert.deepEqual(
    results.map(({ status }) => status),
    [0, 0],
    results.map(({ stderr }) => stderr).join(''),
  )
  await assertUpgraded(admin)
})

import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createEncryption } from '../src/auth/store-secret.ts'
import { CATALOGUE_EVENT_TYPES } from '../src/catalogue/catalogue-event.ts'
import { recordProductEvents } from '../src/catalogue/change-catalogue.ts'
import { inTransaction } from '../src/db/transaction.ts'
import { addEndpoint } from '../src/webhooks/webhook-endpoints.ts'
import { eventually, retryUntil } from '../test/eventually.ts'
import { TEST_SECRET } from '../test/store.ts'
import { launch, runStorefront } from '../test/store-process.ts'
import type { Fault } from './fault.ts'
import { readLakeIds } from './independent-check.ts'
import type { Round } from './round.ts'
import { awaitWebhooks, startReceiver } from './webhooks.ts'

const PATIENCE_MS = 300_000
const IMPORTED = 2_000

/** A product without orders, whose stock is removed and restored. */
const SOLD_OUT = 'SOLD-OUT'
const STOCK = 7

/** Adds the product unless it exists. */
async function addSoldOut(round: Round): Promise<void> {
  const added = await inTransaction(round.pool, async (tx) => {
    const { rows } = await tx.query<{ id: string }>(
      `with product as (
        insert into products (id, sku, name, category, price_amount, price_currency, in_stock) values ($1, $2, 'Lamp', 'lamps', 1250, 'EUR', true)
        on conflict do nothing
        returning id
      )
      insert into inventory (product_id, available) select id, $3 from product returning product_id as id`,
      [randomUUID(), SOLD_OUT, STOCK],
    )
    const ids = rows.map(({ id }) => id)
    await recordProductEvents(tx, ids, null)
    return ids
  })
  for (const id of added) round.shop.initialStock.set(id, STOCK)
}

/** Several writers change products: names, prices in two currencies, and stock. */
export async function changeProducts(round: Round, changes: number): Promise<void> {
  await retryUntil(() => addSoldOut(round), PATIENCE_MS)
  const { rows } = await round.pool.query<{ id: string }>('select id from products where sku <> $1 order by id limit 5', [SOLD_OUT])
  const ids = rows.map(({ id }) => id)
  for (let change = 0; change < changes; change++) {
    const id = ids[Math.floor(round.random() * ids.length)] as string
    const [name, price] = [`Name ${Math.floor(round.random() * 3)}`, 1_250 + Math.floor(round.random() * 3)]
    const prices = round.random() < 0.3 ? {} : { USD: { amount: 1_500 + Math.floor(round.random() * 2) } }
    await retryUntil(
      () =>
        inTransaction(round.pool, async (tx) => {
          await tx.query('update products set name = $2, price_amount = $3, prices = $4 where id = $1', [id, name, price, prices])
          await recordProductEvents(tx, [id], null)
          for (const available of [0, STOCK])
            await tx.query('update inventory set available = $2 where product_id = (select id from products where sku = $1)', [
              SOLD_OUT,
              available,
            ])
        }),
      PATIENCE_MS,
    )
  }
}

/**
 * Asserts by plain SQL that the topic has each recorded event once, and those of each product in the order of their
 * versions.
 */
export async function assertComplete(round: Round): Promise<void> {
  const read = async () => {
    const { rows } = await round.pool.query<{ lost: number; doubled: number; unordered: number }>(
      `with event as (
        select product_id, stream, version, product_id || case stream when 'stock' then '.stock.' else '.' end || version as id from product_events
      ), known as (
        select event.*, message.sequence, lag(message.sequence) over (partition by product_id, stream order by version) as before
        from event left join catalogue_messages as message using (id)
      )
      select
        count(*) filter (where sequence is null)::integer as lost,
        (select count(*) - count(distinct event ->> 'id') from catalogue_messages)::integer as doubled,
        count(*) filter (where sequence < before)::integer as unordered
      from known`,
    )
    return rows[0] ?? { lost: 1, doubled: 0, unordered: 0 }
  }
  await eventually(async () => (await read().catch(() => ({ lost: 1 }))).lost === 0, {
    what: 'every event of the catalogue',
    timeoutMs: PATIENCE_MS,
  })
  const { doubled, unordered } = await read()
  if (doubled + unordered > 0) throw new Error(`events of the catalogue: ${doubled} doubled, ${unordered} out of order`)
}

/** The process with both streams is killed several times at a step of the catalogue's, while orders are placed. */
async function dieAndContinue(round: Round, orders: number, step: string): Promise<void> {
  await round.survive('email,lake')
  const options = { CATALOGUE: 'on' }
  for (let death = 0; death < 2; death++) {
    const dying = await round.start('stream', {
      ...options,
      FAULT: `catalogue ${step}`,
      FAULT_AFTER: String(Math.floor(round.random() * 4)),
    })
    await Promise.all([changeProducts(round, orders), round.shop.trade(Math.ceil(orders / 2))])
    while (dying.child.signalCode === null && dying.child.exitCode === null) await changeProducts(round, 1)
  }
  await round.start('stream', options)
  await changeProducts(round, 3)
  await assertComplete(round)
}

/** The catalogue's slot is dropped while products change. */
async function loseSlot(round: Round, orders: number): Promise<void> {
  await round.survive('email,lake')
  const first = await round.start('stream', { CATALOGUE: 'on' })
  await changeProducts(round, orders)
  await first.kill()
  const changing = changeProducts(round, orders)
  await eventually(() =>
    round.pool
      .query(
        `select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database() and slot_name ~ '_catalogue'`,
      )
      .then(
        () => true,
        () => false,
      ),
  )
  await pause(round.random() * 100)
  await round.start('stream', { CATALOGUE: 'on' })
  await Promise.all([changing, round.shop.trade(orders)])
  await assertComplete(round)
}

/** An import is killed several times in the middle, and then repeated to its end. */
async function killImport(round: Round, orders: number): Promise<void> {
  await round.survive('email,lake')
  await round.start('stream', { CATALOGUE: 'on' })
  const file = join(round.dataDir, 'products.ndjson')
  const prefix = randomUUID()
  const lines = Array.from({ length: IMPORTED }, (_, index) =>
    JSON.stringify({
      sku: `${prefix}-${index}`,
      name: `Product ${index}`,
      category: 'c',
      price: { amount: index, currency: 'EUR' },
      stock: 0,
    }),
  )
  writeFileSync(file, lines.join('\n'))
  const env = round.environment('api')
  for (let death = 0; death < 2; death++) {
    const child = launch(['catalogue', 'import', file], { env })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    await pause(1_000 + round.random() * 1_500)
    child.kill('SIGKILL')
    await ended
  }
  const trading = round.shop.trade(orders)
  const { status, stderr } = await runStorefront(round.cleanup, ['catalogue', 'import', file], { env })
  if (status !== 0) throw new Error(`the import ended with ${status}: ${stderr}`)
  await trading
  const { rows } = await round.pool.query<{ wrong: number }>(
    `select count(*) filter (where events <> 1)::integer as wrong
    from (
      select product.id, count(event.version) as events
      from products as product
      left join product_events as event on event.product_id = product.id and event.stream = 'product'
      where product.sku like $1
      group by product.id
    ) as imported`,
    [`${prefix}%`],
  )
  if (rows[0]?.wrong !== 0) throw new Error(`${rows[0]?.wrong} imported products do not have one event`)
  await assertComplete(round)
}

/** The lake's writer is killed at a step of a catalogue file, and another writer starts. */
async function killLakeWriter(round: Round, orders: number, step: string): Promise<void> {
  await round.survive('email')
  await round.start('stream', { CATALOGUE: 'on' })
  const dying = await round.start('lake', { FAULT: step })
  await Promise.all([dying.ended, changeProducts(round, orders), round.shop.trade(orders)])
  await round.start('lake')
  await changeProducts(round, 3)
  await assertComplete(round)
  await assertInLake(round)
}

/** Asserts by DuckDB and plain SQL that the lake has each message of the topic once, in the topic's order. */
async function assertInLake(round: Round): Promise<void> {
  const { rows } = await round.pool.query<{ id: string }>('select id from catalogue_messages order by sequence')
  const wanted = rows.map(({ id }) => id)
  const read = () => readLakeIds(round.lake, 'catalogue')
  await eventually(async () => (await read()).length >= wanted.length, {
    what: 'the events of the catalogue in the lake',
    timeoutMs: PATIENCE_MS,
    pauseMs: 200,
  })
  const inLake = await read()
  const wrong = inLake.findIndex((id, index) => id !== wanted[index])
  if (wrong !== -1)
    throw new Error(`${inLake.length} events of the catalogue in the lake, of ${wanted.length}; ${inLake[wrong]} is out of order`)
}

/** A receiver of the catalogue's events fails every third post, and a worker is killed several times. */
async function killWebhooks(round: Round, orders: number): Promise<void> {
  const receiver = await startReceiver(round.cleanup)
  const encryption = createEncryption(TEST_SECRET, 'webhook secret')
  await addEndpoint(round.pool, encryption, { url: receiver.url, eventTypes: CATALOGUE_EVENT_TYPES, isPrivateAllowed: true })
  await round.survive('stream,email,lake')
  const settings = { WEBHOOK_ALLOW_PRIVATE: 'on' }
  for (let death = 0; death < 2; death++) {
    const worker = await round.start('webhook', settings)
    const changing = Promise.all([changeProducts(round, orders), round.shop.trade(Math.ceil(orders / 2))])
    await pause(round.random() * 600)
    await worker.kill()
    await changing
  }
  await round.start('webhook', settings)
  await changeProducts(round, 3)
  await assertComplete(round)
  const { rows } = await round.pool.query<{ events: number }>('select count(*)::integer as events from product_events')
  await awaitWebhooks(round, receiver.received, rows[0]?.events ?? 0)
}

/** Faults of catalogue events, with the topic in PostgreSQL. */
export const CATALOGUE_FAULTS: Fault[] = [
  ...(['after read', 'during publish', 'after publish', 'after confirm'] as const).map(
    (step) =>
      ({
        name: `catalogue-${step.replace(' ', '-')}`,
        title: `kill -9 of the stream of the catalogue ${step}`,
        run: (round, orders) => dieAndContinue(round, orders, step),
      }) satisfies Fault,
  ),
  ...(
    [
      ['catalogue before link', 'before its file is there'],
      ['catalogue before metadata', 'before the snapshot that has its file'],
      ['catalogue after metadata', 'after the snapshot that has its file'],
    ] as const
  ).map(
    ([step, when]) =>
      ({
        name: `catalogue-lake-${step.replace('catalogue ', '').replace(' ', '-')}`,
        title: `kill -9 of the lake writer of the catalogue ${when}`,
        run: (round, orders) => killLakeWriter(round, orders, step),
      }) satisfies Fault,
  ),
  {
    name: 'catalogue-webhooks',
    title: 'webhooks of the catalogue to a receiver that fails every third post, and kill -9 of their worker, twice',
    run: killWebhooks,
  },
  { name: 'catalogue-slot', title: 'the slot of the catalogue is lost', run: loseSlot },
  { name: 'catalogue-import', title: 'kill -9 of an import, and its repetition', run: killImport },
]

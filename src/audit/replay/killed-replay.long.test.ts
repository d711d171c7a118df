import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { onCleanup } from '../../../test/cleanup.ts'
import { eventually } from '../../../test/eventually.ts'
import { type Account, startStore, type TestStore } from '../../../test/store.ts'
import { silent } from '../../../test/stream-harness.ts'
import { orderSlotOf } from '../../app/prepare-database.ts'
import { readinessCheck } from '../../app/readiness.ts'
import { createOrderStreamHandler } from '../../change-stream/order-stream-handler.ts'
import { readSlotStatus } from '../../change-stream/replication-slot.ts'
import { ORDERS as PARTITION } from '../../topic/partitions.ts'
import { createPostgresTopic } from '../../topic/postgres/postgres-topic.ts'
import { replay } from './replay.ts'

const PROCESS = fileURLToPath(new URL('../../../test/replay-process.ts', import.meta.url))
const ORDERS = 3

/** A store whose slot is lost repeatedly. */
class UnluckyStore {
  readonly #t: TestContext
  readonly store: TestStore
  readonly #customer: Account
  readonly #productId: string

  private constructor(t: TestContext, store: TestStore, customer: Account, productId: string) {
    this.#t = t
    this.store = store
    this.#customer = customer
    this.#productId = productId
  }

  static async open(t: TestContext): Promise<UnluckyStore> {
    const store = await startStore(t)
    const [customer, product] = [await store.register(), await store.addProduct({ stock: null })]
    return new UnluckyStore(t, store, customer, product.id)
  }

  get slotName(): string {
    return orderSlotOf(this.store.url)
  }

  async place(): Promise<string> {
    const body = { items: [{ product_id: this.#productId, quantity: 1 }] }
    const { status, json } = await this.store.call('POST', '/orders', { token: this.#customer.token, body })
    assert.equal(status, 201)
    return json.id
  }

  async cancel(id: string): Promise<void> {
    assert.equal((await this.store.call('POST', `/orders/${id}/cancel`, { token: this.#customer.token })).status, 200)
  }

  async loseSlot(): Promise<void> {
    await eventually(
      async () => {
        await this.store.pool
          .query('select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1', [this.slotName])
          .catch((error) => assert.equal(error.code, '55006'))
        return (await readSlotStatus(this.store.pool, this.slotName)).lostReason !== null
      },
      { what: 'a lost slot' },
    )
  }

  /** Another change stream, with its logged failures and the readiness of its process. */
  async startStream() {
    const { pool, url, addresses } = this.store
    const failures: string[] = []
    const logger = pino({ level: 'error' }, { write: (line) => void failures.push(JSON.parse(line).err?.message ?? line) })
    const topic = createPostgresTopic(PARTITION, { pool, url, logger: silent })
    const stream = createOrderStreamHandler({ url, pool, slotName: this.slotName, topic, logger })
    onCleanup(this.#t, () => stream.stop())
    await stream.start()
    return {
      failures,
      stop: () => stream.stop(),
      failing: readinessCheck(pool, { orders: stream, catalogue: stream }, { addresses, failure: null }),
    }
  }

  replay() {
    const { pool, url, addresses } = this.store
    return replay({
      pool,
      streamUrl: addresses.stream,
      topic: createPostgresTopic(PARTITION, { pool, url, logger: silent }),
      slotName: this.slotName,
    })
  }

  /** Kills `storefront replay` before its statement of this number. Returns the number of statements if it ended before. */
  async killReplay(number: number): Promise<number | null> {
    const child = spawn(process.execPath, [PROCESS, this.store.url, String(number)], { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    const [status, signal] = await once(child, 'close')
    assert.ok(status === 0 || signal === 'SIGKILL', output)
    return status === 0 ? Number(output) : null
  }

  /** The versions on the topic, in the topic's order, by order id. */
  async versions(): Promise<Map<string, number[]>> {
    const { rows } = await this.store.pool.query<{ order_id: string; versions: number[] }>(
      `select event ->> 'subject' as order_id, array_agg(split_part(id, '.', 2)::integer order by sequence) as versions
      from topic_messages
      group by 1`,
    )
    return new Map(rows.map(({ order_id, versions }) => [order_id, versions]))
  }
}

/** Whether the versions of every order are complete and in order. */
function assertInOrder(versions: ReadonlyMap<string, number[]>): void {
  for (const [id, found] of versions)
    assert.deepEqual(
      found,
      Array.from(found, (_, index) => index + 1),
      id,
    )
}

const isUnfinished = (message: string) =>
  /storefront replay has not published all|does not exist|something else recreated or moved it/.test(message)

test('a replay that is killed at any of its statements leaves the slot lost until another one has finished its work', {
  timeout: 600_000,
}, async (t) => {
  const shop = await UnluckyStore.open(t)
  const { pool } = shop.store
  let total: number | null = null
  let lost = 0
  for (let number = 1; total === null; number++) {
    const orders = await Promise.all(Array.from({ length: ORDERS }, () => shop.place()))
    await shop.loseSlot()
    const waiting = await shop.startStream()
    total = await shop.killReplay(number)
    // A change that a stream would publish before the older ones, and a process that has not seen the replay.
    await shop.cancel(orders[0] ?? '')
    const starting = await shop.startStream()
    const isLost = (await readSlotStatus(pool, shop.slotName)).lostReason !== null
    assert.equal(isLost, total === null, `statement ${number}`)
    if (isLost) {
      lost += 1
      await eventually(async () => starting.failures.some(isUnfinished), { what: `a stream that is refused after statement ${number}` })
      const [failing] = await starting.failing()
      assert.equal(failing?.name, 'change_stream')
      assert.ok(isUnfinished(failing.reason), failing.reason)
      assertInOrder(await shop.versions())
      assert.equal((await shop.versions()).get(orders[0] ?? '')?.includes(2) ?? false, false, `statement ${number}`)
    }
    const { isSlotRenewed } = await shop.replay()
    assert.equal(isSlotRenewed, isLost)
    await eventually(async () => (await shop.versions()).get(orders[0] ?? '')?.length === 2, { what: 'the newest change on the topic' })
    const versions = await shop.versions()
    assertInOrder(versions)
    for (const id of orders) assert.ok(versions.has(id))
    assert.equal((await readSlotStatus(pool, shop.slotName)).lostReason, null)
    // Both may wait some seconds before their next check.
    if (total !== null || number === 1) await eventually(async () => (await starting.failing()).length === 0, { what: 'a ready store' })
    await Promise.all([waiting.stop(), starting.stop()])
  }
  t.diagnostic(`${total} statements`)
  assert.ok(lost > 10, `${lost} of ${total} statements`)
})

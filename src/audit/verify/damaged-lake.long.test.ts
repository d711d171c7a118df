import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { makeRandom } from '../../../faults/random.ts'
import { queryFolder } from '../../../test/lake-harness.ts'
import { farFromMidnight } from '../../../test/midnight.ts'
import { writeOldFile } from '../../../test/old-lake-file.ts'
import { startAuditedStore, startStoreWithFiles } from '../../../test/pipeline-audit.ts'
import { LakeFiles } from '../../lake/lake-files.ts'
import { partitionMessages } from '../../topic/partition-messages.ts'
import { ORDERS } from '../../topic/partitions.ts'

const FLIPS = 24

await farFromMidnight()

test('finds a flipped byte in a file without a checksum, if it changes the content', async (t) => {
  const store = await startStoreWithFiles(t, [4])
  for (const folder of ['orders', 'iceberg/order_events']) await rm(store.lakeStore.locate(folder), { recursive: true })
  const { messages } = partitionMessages(ORDERS, await store.topic.read(0, 100))
  const path = await writeOldFile(store.lake, messages, new Date().toISOString().slice(0, 10))
  await new LakeFiles(store.lakeStore, 'orders', () => new Date()).newestSequence()
  assert.deepEqual((await store.verify()).findings, [], 'a file of the first release is right')
  // The time of ingestion is stored nowhere else.
  const readContents = async () =>
    (await queryFolder(store.lake, 'select * exclude (ingested_at) from order_events order by sequence')).rows
  const contents = await readContents()
  const bytes = await readFile(path)
  const random = makeRandom(15)
  const unnoticed: number[] = []
  for (let flip = 0; flip < FLIPS; flip++) {
    const offset = Math.floor(random() * bytes.length)
    const damaged = Buffer.from(bytes)
    damaged[offset] = (damaged[offset] ?? 0) ^ (1 << Math.floor(random() * 8))
    await writeFile(path, damaged)
    if ((await store.verify()).findings.length > 0) continue
    const now = await readContents().catch((error: unknown) => error)
    if (JSON.stringify(now) !== JSON.stringify(contents)) unnoticed.push(offset)
  }
  assert.deepEqual(unnoticed, [])
})

test('ignores an address that was erased in the events', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const address = { name: 'Ada', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' }
  const customer = await store.register()
  const { id } = await store.addProduct({ stock: null })
  const body = { items: [{ product_id: id, quantity: 1 }], shipping_address: address }
  const placed = await customer.ok('POST', '/orders', { body })
  await store.untilDelivered()
  await stop()
  assert.deepEqual((await queryFolder(store.lake, 'select shipping_country from order_events')).rows, [['GB']])
  await store.pool.query('update orders set shipping_address = null where id = $1', [placed.id])
  await store.pool.query('select erase_addresses_in_topic($1)', [[placed.id]])
  assert.deepEqual((await store.verify()).findings, [])
})

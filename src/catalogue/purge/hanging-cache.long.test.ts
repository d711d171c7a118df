import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { pino } from 'pino'
import { onCleanup } from '../../../test/cleanup.ts'
import { createTestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { startHangingServer } from '../../../test/hanging-server.ts'
import { addProduct } from '../../../test/store.ts'
import { FreshCopies } from '../../db/fresh-copies.ts'
import { connectClient } from '../../db/pool.ts'
import { DeliveryQueue } from '../../deliveries/delivery-queue.ts'
import { productTag } from '../events.ts'
import { createCataloguePurge } from './purge-catalogue.ts'
import { createPurgers } from './purger.ts'

const logger = pino({ level: 'silent' })

test('a cache that never answers does not delay the purges of another cache', async (t) => {
  const { url, pool } = await createTestDatabase(t)
  const purged = new Map<string, number>()
  const cache = createServer((request, response) => {
    for (const tag of String(request.headers['surrogate-key']).split(' ')) purged.set(tag, (purged.get(tag) ?? 0) + 1)
    response.end()
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  cache.listen(0, '127.0.0.1', resolve)
  await promise
  onCleanup(t, () => {
    cache.close()
    cache.closeAllConnections()
  })
  const address = cache.address()
  assert.ok(typeof address === 'object' && address !== null)
  const purgers = createPurgers([`varnish://127.0.0.1:${await startHangingServer(t)}`, `varnish://127.0.0.1:${address.port}`])
  const deliveries = new DeliveryQueue({ pool, logger })
  const copies = new FreshCopies({ pool, connect: () => connectClient(url, 'test'), logger })
  const service = createCataloguePurge({ pool, copies, deliveries, purgers, logger })
  onCleanup(t, async () => {
    await service.stop()
    await deliveries.stop()
    await copies.stop()
  })
  await copies.start()
  await deliveries.start()
  await service.start()
  // There are more changes than the queue has places. Each is committed after the other cache has taken the previous
  // one.
  for (let change = 0; change < 40; change++) {
    const { id } = await addProduct(pool)
    await eventually(async () => purged.has(productTag(id)), { what: 'the purge of the other cache' })
  }
  const { rows } = await pool.query<{ waiting: number }>('select count(*)::integer as waiting from cache_purges where cache = $1', [
    purgers[0]?.name,
  ])
  assert.equal(rows[0]?.waiting, 80, 'each purge of the cache that hangs waits, and its second one')
})

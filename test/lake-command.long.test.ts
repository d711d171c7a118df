import assert from 'node:assert/strict'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { readConfig } from '../src/config.ts'
import { withFreeLakeLock } from '../src/lake/lake-lock.ts'
import { farFromMidnight } from './midnight.ts'
import { startAuditedStore } from './pipeline-audit.ts'
import { startS3Server } from './s3-server.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront } from './store-process.ts'

// Files of two days are not merged.
await farFromMidnight()

test('a lake in a bucket, from the command line: query, compact, verify, repair', async (t) => {
  const server = await startS3Server(t, { pageSize: 3 })
  Object.assign(process.env, server.env)
  const place = { ...server.env, LAKE_URL: `s3://${server.bucket}/shop/` }
  const store = await startAuditedStore(t, { lakeBucket: readConfig(place).lakeBucket })
  // No process writes to the lake that these commands ran, and a slow machine takes minutes for them.
  const LAKE_FLUSH_SECONDS = '3600'
  const env = { ...place, DATABASE_URL: store.url, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir, LAKE_FLUSH_SECONDS }
  const run = (...args: string[]) => runStorefront(t, args, { env })
  const stop = await store.startPipeline()
  for (let file = 0; file < 3; file++) {
    await store.trade(2)
    await store.untilDelivered()
  }
  await stop()
  const today = new Date().toISOString().slice(0, 10)
  const folder = join(server.folder, 'shop/orders', `ingest_date=${today}`)
  assert.equal((await readdir(folder)).length, 3)

  const busy = await withFreeLakeLock(store.url, () => run('lake', 'maintain'))
  assert.deepEqual([busy.status, busy.stderr], [1, 'storefront: the files of the lake are being merged or repaired by another process\n'])
  const sources = await readdir(folder)
  const merged = await run('lake', 'maintain')
  const [name = '', ...others] = (await readdir(folder)).filter((file) => !sources.includes(file))
  const path = `s3://${server.bucket}/shop/orders/ingest_date=${today}/${name}`
  assert.deepEqual(
    [merged.stdout, others],
    [`${path}: 6 rows of 3 files\nmerged into 1 file; wrote 10 tables again\nended 0 snapshots, deleted 0 files\n`, []],
  )
  assert.match((await run('lake', 'query', 'select count(*) as n, count(distinct event_id) from order_events')).stdout, /^6 \| 6$/m)

  await writeFile(join(folder, name), 'PAR1 it is not')
  const ill = await run('verify')
  assert.equal(ill.status, 1)
  assert.ok(ill.stdout.includes(`${path}: `), ill.stdout)
  const repaired = await run('lake', 'repair')
  assert.equal(repaired.stdout, `quarantined ${path}.corrupt\nwrote 6 events that the lake lacked\n`)
  assert.equal((await run('verify')).status, 0)
  assert.equal((await run('replay', '--subscriber', 'lake')).stdout, 'wrote 0 events that the lake lacked\n')

  const usage = await run('lake', 'maintain', '--keep-hours', 'few')
  assert.equal(usage.status, 2)
})

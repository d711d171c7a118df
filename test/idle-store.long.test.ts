import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startAsInstalled } from '../bench/rig/installed-store.ts'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { findEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { connectClient } from '../src/db/pool.ts'
import { eventually } from './eventually.ts'

const CALM_MS = 10_000
/** What is done once a minute is counted once. */
const COUNTED_SECONDS = 60
/** Most statements a second of each source, by its name in `pg_stat_activity`: docs/decisions/db-copies.md. */
const MOST: Record<string, number> = {
  'storefront-copies': 1.2,
  // The position of a slot after a checkpoint or a cleaned table, renamed categories, and what is done once a minute.
  'storefront-pipeline': 2.6,
  // The maintenance of the lake, a minute after the start and then once an hour, and its tables before that.
  'storefront-lake-files': 0.25,
  // It holds locks that it must lose within seconds of a cut.
  'storefront-subscribers': 0.7,
}
const MOST_TOGETHER = 5

const passed = (ms: number) => {
  const endsAt = performance.now() + ms
  return eventually(async () => performance.now() > endsAt, { pauseMs: 500 })
}

test('an idle store with every role asks its database for little, and each source no more than its share', async (t) => {
  const { dataDir } = await startAsInstalled(t)
  const addresses = await findEmbeddedPostgres(dataFolder(dataDir))
  assert.ok(addresses !== null)
  await passed(CALM_MS)

  const log = join(dataDir, 'postgres.log')
  const client = await connectClient(addresses.owner, 'idle-store-test')
  await client.query(`alter system set log_statement = 'all'`)
  await client.query(`alter system set log_line_prefix = '|%a|'`)
  await client.query('select pg_reload_conf()')
  const { size } = statSync(log)
  await passed(COUNTED_SECONDS * 1_000)
  await client.end()

  const counted = Map.groupBy(
    readFileSync(log)
      .subarray(size)
      .toString()
      .matchAll(/^\|([^|]*)\|LOG: {2}(?:statement|execute)/gm),
    ([, name]) => name ?? '',
  )
  counted.delete('idle-store-test')
  const perSecond = [...counted].map(([name, statements]) => ({ name, perSecond: statements.length / COUNTED_SECONDS }))
  const together = perSecond.reduce((sum, source) => sum + source.perSecond, 0)
  t.diagnostic(`${together} a second: ${perSecond.map(({ name, perSecond }) => `${name} ${perSecond}`).join(', ')}`)
  assert.deepEqual(
    perSecond.filter(({ name, perSecond }) => perSecond > (MOST[name] ?? 0)),
    [],
    'no source beyond its share, and no other source',
  )
  assert.ok(together <= MOST_TOGETHER, `${together} statements a second`)
  assert.ok((counted.get('storefront-copies')?.length ?? 0) > 0, 'statements were counted')
})

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { onCleanup } from './cleanup.ts'
import { assertFinding, examine } from './doctor-harness.ts'
import { eventually } from './eventually.ts'
import { startStore } from './store.ts'
import { fillDisk, mountTmpfs, NO_TMPFS } from './tmpfs.ts'

test('a lake that is read-only shows at the operations port, also while nothing is sold', { skip: NO_TMPFS }, async (t) => {
  const operations = { host: '127.0.0.1', port: 0, isRequired: true }
  const store = await startStore(t, { roles: ['api', 'stream', 'lake'], operations, lakeFlushSeconds: 1 })
  const ready = async () => {
    const answer = await fetch(`http://127.0.0.1:${store.app.operationsPort}/readyz`)
    return { status: answer.status, failing: ((await answer.json()) as { failing?: { name: string; reason: string }[] }).failing }
  }
  await eventually(async () => (await ready()).status === 200, { what: 'a store that is ready' })
  const lake = join(store.config.dataDir, 'lake')
  mkdirSync(lake, { recursive: true })
  assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'ro,size=1m', 'tmpfs', lake]).status, 0)
  const unmount = () => spawnSync('umount', [lake])
  onCleanup(t, () => void unmount())
  const failing = await eventually(async () => (await ready()).failing, { what: 'a lake that is named' })
  assert.deepEqual(
    failing.map(({ name }) => name),
    ['lake'],
  )
  assert.match(failing[0]?.reason ?? '', /^the lake cannot be written: EROFS/)
  assert.equal((await store.call('GET', '/readyz')).status, 200, 'customers can still buy')
  const look = () => examine({ DATA_DIR: store.config.dataDir })
  assertFinding(await look(), 'lake', 'problem', /^EROFS/, /^make room on its disk, mount it for writing/)
  unmount()
  await eventually(async () => (await ready()).status === 200, { what: 'a lake that can be written' })
  assertFinding(await look(), 'lake', 'ok', /^files in .*lake, which can be written$/)
  mountTmpfs(t, lake, 1)
  fillDisk(lake)
  assertFinding(await look(), 'lake', 'problem', /^ENOSPC/)
})

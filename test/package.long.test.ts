import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { makeDataFolder, serverProcesses } from './data-folders.ts'
import { findOldNode } from './old-node.ts'
import { runStorefront, serve } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Packs the package as npm publishes it. Returns the path of the archive in a new, empty folder. */
function pack(t: TestContext): string {
  const directory = makeTestFolder(t)
  execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', directory], { cwd: ROOT, stdio: 'pipe' })
  const [archive = ''] = readdirSync(directory).filter((name) => name.endsWith('.tgz'))
  return join(directory, archive)
}

/** Unpacks the product as npm installs it, with the packages of this checkout. Returns the path of its command. */
function install(t: TestContext): { modules: string; bin: string } {
  const archive = pack(t)
  const modules = join(dirname(archive), 'node_modules')
  mkdirSync(join(modules, 'storefront'), { recursive: true })
  execFileSync('tar', ['-xzf', archive, '-C', join(modules, 'storefront'), '--strip-components=1'])
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

test('an old Node.js names the remedy when the pinned one lacks a library of the system', {
  skip: (oldNode === null && 'this machine has no old Node.js') || (process.platform !== 'linux' && 'the loader is that of Linux'),
}, async (t) => {
  const { modules, bin } = install(t)
  const pinned = join(modules, `node-linux-${process.arch}`)
  rmSync(pinned)
  mkdirSync(join(pinned, 'bin'), { recursive: true })
  writeFileSync(join(pinned, 'package.json'), '{}')
  // Any program whose library does not exist: the loader ends it before it runs.
  const program = readFileSync('/usr/bin/env').toString('latin1').replace('libc.so.6\0', 'libc.so.9\0')
  writeFileSync(join(pinned, 'bin/node'), program, { encoding: 'latin1', mode: 0o755 })
  const { status, stdout, stderr } = await runStorefront(t, ['--help'], { bin, ...(oldNode === null ? {} : { node: oldNode }) })
  assert.deepEqual([status, stdout], [127, ''])
  assert.match(stderr, /libc\.so\.9: cannot open shared object file.*\nstorefront: .* run apt install libatomic1\n$/)
})

test('npm installs it into an empty folder, where npx runs a store whose data is there', async (t) => {
  const archive = pack(t)
  const folder = join(dirname(archive), 'shop')
  mkdirSync(folder)
  // The Node.js that npm runs on is that of the machine, as for anybody who tries the store.
  const env = {
    ...process.env,
    PATH: (process.env.PATH ?? '')
      .split(delimiter)
      .filter((path) => !path.includes('node_modules'))
      .join(delimiter),
  }
  const npm = spawnSync('npm', ['install', '--prefix', folder, '--no-audit', '--no-fund', '--prefer-offline', archive], {
    env,
    encoding: 'utf8',
  })
  if (npm.status !== 0 && /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT/.test(npm.stderr) && process.env.CI !== 'true')
    return t.skip('the registry of npm cannot be reached')
  assert.equal(npm.status, 0, npm.stderr)
  const version = execFileSync('npx', ['--no', '--', 'storefront', '--version'], { cwd: folder, env, encoding: 'utf8' })
  assert.equal(version.trim(), JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version)
  const store = await serve(t, {
    bin: join(folder, 'node_modules/.bin/storefront'),
    cwd: folder,
    ...(oldNode === null ? {} : { node: oldNode }),
  })
  assert.equal((await fetch(`${store.url}/products`)).status, 200)
  assert.ok(existsSync(join(folder, 'data/postgres')))
  assert.equal(await store.end('SIGTERM'), 0)
})

// Packages of the tests ask for a later Node.js than the oldest one that npm may run on, in 80 lines of warnings.
test('npm ci prints no warning on an old Node.js', { skip: oldNode === null && 'no Node.js before 26 is installed' }, () => {
  const others = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'))
  const { status, stderr } = spawnSync('npm', ['ci', '--dry-run', '--offline'], {
    ...{ cwd: ROOT, encoding: 'utf8' },
    env: { PATH: [dirname(oldNode ?? ''), ...others].join(delimiter), HOME: process.env.HOME },
  })
  assert.deepEqual([status, stderr], [0, ''])
})

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import { findOldNode } from './old-node.ts'
import { startStore } from './store.ts'
import { makeTestFolder } from './test-folder.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const MAX_BYTES = 10_000
const run = promisify(execFile)
const [, example = ''] = /```js\n([\s\S]*?)```/.exec(readFileSync(join(ROOT, 'client/README.md'), 'utf8')) ?? []

const folder = makeTestFolder({ after }, 'storefront-client-')
const page = createServer()
await new Promise<void>((resolve) => void page.listen(0, '127.0.0.1', resolve))
after(() => page.close())
const pageOrigin = `http://127.0.0.1:${(page.address() as AddressInfo).port}`

// The package as npm would publish it, installed into an empty folder.
await run('npm', ['pack', '--workspace', 'client', '--pack-destination', folder, '--loglevel', 'error'], { cwd: ROOT })
const modules = join(folder, 'node_modules')
const installed = join(modules, '@storefront/client')
mkdirSync(installed, { recursive: true })
const [archive = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
await run('tar', ['xzf', join(folder, archive), '--strip-components', '1', '-C', installed])
cpSync(join(ROOT, 'node_modules/openapi-fetch'), join(modules, 'openapi-fetch'), { recursive: true })

const store = await startStore({ after }, { corsOrigins: [pageOrigin] })
for (const amount of [1_290, 990, 450]) await store.addProduct({ amount })
const baseUrl = `http://127.0.0.1:${store.port}`
const program = example.replace('http://localhost:3000', baseUrl)
const countOrders = async () => Number((await store.pool.query('select count(*) from orders')).rows[0].count)

test('the generated types are those of openapi.json', async () => {
  const generated = join(folder, 'schema.ts')
  await run('npm', ['run', '--workspace', 'client', 'types', '--', generated], { cwd: ROOT })
  assert.equal(readFileSync(join(ROOT, 'client/src/schema.ts'), 'utf8'), readFileSync(generated, 'utf8'), 'run npm run -w client generate')
})

test('the calls of a shop have no operation of operators, and those of operators have all', async () => {
  const program = join(folder, 'operations.ts')
  writeFileSync(
    program,
    `import { createStorefront, type paths as Shop } from '@storefront/client'
    import { operatorApi, type paths as All } from '@storefront/client/operators'
    export const shop: Extract<keyof Shop, \`/admin/\${string}\`> extends never ? true : false = true
    export const all: '/admin/orders' extends keyof All ? true : false = true
    export const orders = createStorefront({ baseUrl: '' }).api.GET('/orders', {})
    export const admin = operatorApi(createStorefront({ baseUrl: '' })).GET('/admin/orders', {})`,
  )
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--lib',
    'es2023,dom,dom.iterable',
  ]
  await run(process.execPath, [join(ROOT, 'client/node_modules/typescript/bin/tsc'), ...options, program])
})

test('the published package has the modules, their types and the README, one dependency, and less than 10 kB for a browser', () => {
  const files = readdirSync(installed, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('.'))
  const outside = files.filter((name) => !/^(dist\/[a-z-]+\.(js|d\.ts)|package\.json|README\.md|LICENSE)$/.test(name))
  assert.deepEqual(outside, [])
  const { dependencies, exports, license } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
  assert.deepEqual(Object.keys(dependencies), ['openapi-fetch'])
  assert.equal(license, 'MIT')
  for (const path of Object.values(exports as Record<string, Record<string, string>>).flatMap((entry) => Object.values(entry)))
    assert.ok(files.includes(path.slice(2)), path)
  const scripts = files.filter((name) => name.endsWith('.js')).map((name) => join(installed, name))
  // One bundle, as a bundler sends it; not minified.
  const bundle = Buffer.concat([...scripts, join(modules, 'openapi-fetch/dist/index.mjs')].map((path) => readFileSync(path)))
  const bytes = gzipSync(bundle).length
  assert.ok(bytes < MAX_BYTES, `${bytes} bytes with gzip`)
})

test('the example of the README places an order in the oldest Node.js that is supported', {
  skip: findOldNode() === null && 'this machine has no old Node.js',
}, async () => {
  const before = await countOrders()
  writeFileSync(join(folder, 'example.mjs'), program)
  const { stdout } = await run(findOldNode() ?? '', [join(folder, 'example.mjs')], { cwd: folder })
  assert.match(stdout, /^order \d+: €14\.40\n\d+ pending\n$/)
  assert.equal(await countOrders(), before + 1)
})

test('the example of the README places an order in a browser', { skip: NO_CHROMIUM }, async (t) => {
  const imports = { '@storefront/client': '/@storefront/client/dist/index.js', 'openapi-fetch': '/openapi-fetch/dist/index.mjs' }
  const html = `<!doctype html><link rel="icon" href="data:,"><script type="importmap">${JSON.stringify({ imports })}</script>
    <script type="module">${program}</script>`
  page.on('request', ({ url = '/' }, response) => {
    const isPage = url === '/'
    response.setHeader('content-type', isPage ? 'text/html' : 'text/javascript')
    response.end(isPage ? html : readFileSync(join(modules, url)))
  })
  const browser = await openBrowser(t)
  const { page: tab, complaints } = await browser.open()
  const before = await countOrders()
  const placed = tab.waitForEvent('console', (message) => /^\d+ pending$/.test(message.text()))
  await tab.goto(pageOrigin)
  await placed
  assert.equal(await countOrders(), before + 1)
  assert.deepEqual(complaints, [])
})

import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, symlinkSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { listFiles } from '../checks/documents.ts'
import { COMMANDS } from '../src/cli/commands.ts'
import { generateWebhookSecret, signWebhook } from '../src/webhooks/webhook-signature.ts'
import { eventually } from './eventually.ts'
import { queryFolder } from './lake-harness.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { BIN } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const guides = listFiles(ROOT, 'docs').filter((path) => path.endsWith('.md') && !path.startsWith('docs/decisions/'))
const DOCUMENTS = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'bench/README.md', 'migrations/README.md', ...guides]
const textOf = (document: string) => readFileSync(join(ROOT, document), 'utf8')

/** Blocks that are not run below, by document and first line, with the reason, or the test that runs them. */
const NOT_RUN_HERE: Record<string, string> = {
  ...Object.fromEntries(
    [
      'npm ci && npm start',
      "curl -s 'http://localhost:3000/products?limit=3&q=lamp'",
      'EMAIL=ada-$(date +%s)@example.com',
      "PRODUCT=$(curl -s 'http://localhost:3000/products?sort=price&in_stock=true&limit=1' \\",
      'sleep 3',
      'sleep 10',
    ].map((line) => [`README.md: ${line}`, 'test/readme.long.test.ts']),
  ),
  'README.md: npm ci && npm test': 'it is the whole run of which this test is a part',
  'CONTRIBUTING.md: npm ci && npm test': 'it is the whole run of which this test is a part',
  'docs/inside/personal-data.md: psql "$DATABASE_URL" --no-align --tuples-only --command "': 'test/erase-in-nats.long.test.ts',
  'docs/operate/backup.md: cd /srv/shop && ./storefront backup "/backup/shop-$(date +\\%F)"':
    'the store of this test has no embedded PostgreSQL; src/db/embedded/backup.long.test.ts backs one up',
  'docs/operate/database.md: export STOREFRONT_SECRET="$(cat "${DATA_DIR:-data}/secret")"': 'src/cli/move-database.long.test.ts',
  ...Object.fromEntries(
    [
      'curl -i -X POST "$STORE/admin/products" -H "Authorization: Bearer $KEY" \\',
      `curl --data-binary @products.ndjson -H 'Content-Type: application/x-ndjson' \\`,
    ].map((line) => [`docs/shop/catalogue.md: ${line}`, 'test/catalogue-document.test.ts']),
  ),
  ...Object.fromEntries(
    [
      'pg_dump --format custom --file "$BACKUP/shop.dump" "$ADMIN/shop"',
      `psql "$ADMIN/postgres" --set ON_ERROR_STOP=1 <<'SQL'`,
      'pg_basebackup --dbname "$ADMIN" --pgdata "$BACKUP/base" --checkpoint fast',
      'pg_ctl stop --mode fast',
      'mkdir -p "$BACKUP/wal"',
      '# To the moment of TARGET.',
      './storefront migrate',
    ].map((line) => [`docs/operate/backup.md: ${line}`, 'src/audit/restore/restore-commands.long.test.ts']),
  ),
}

interface Block {
  document: string
  text: string
  key: string
}

/** The commands of all documents: blocks of the shell, and lines for cron. */
const blocks = DOCUMENTS.flatMap((document) =>
  [...textOf(document).matchAll(/^```(sh|bash|console|crontab)\n([\s\S]*?)^```/gm)].map(([, kind, body = '']): Block => {
    const text = kind === 'crontab' ? body.replaceAll(/^(?:\S+ +){5}/gm, '') : body
    return { document, text, key: `${document}: ${text.split('\n')[0]}` }
  }),
)

test('each block of commands in a document is run by a test, or has a reason why not', () => {
  const keys = blocks.map(({ key }) => key)
  for (const [key, reason] of Object.entries(NOT_RUN_HERE)) {
    assert.ok(keys.includes(key), `no document has the block: ${key}`)
    assert.ok(!/^(test|src)[/]/.test(reason) || existsSync(join(ROOT, reason)), reason)
  }
  assert.equal(new Set(keys).size, keys.length, 'two blocks of a document begin alike')
  assert.ok(blocks.length > 8)
})

test('the commands of the documents work as they are written', async (t) => {
  const folder = makeTestFolder(t, 'storefront-documents-')
  const store = await startStore(t, { roles: ['api', 'stream', 'lake'], lakeFlushSeconds: 1 })
  const { token } = await store.register()
  const { id: product_id } = await store.addProduct()
  assert.equal((await store.call('POST', '/orders', { token, body: { items: [{ product_id, quantity: 1 }] } })).status, 201)
  symlinkSync(BIN, join(folder, 'storefront'))
  const { NODE_TEST_CONTEXT: _, ...outside } = process.env
  const env = {
    ...outside,
    ...{ PATH: [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter), LOG_LEVEL: 'warn', OPS_PORT: '0' },
    ...{ DATABASE_URL: store.addresses.api, DATABASE_STREAM_URL: store.addresses.stream, DATABASE_OWNER_URL: store.addresses.owner },
    ...{ STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir },
  }
  const run = async (script: string, cwd: string) =>
    (await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { cwd, env, timeout: 120_000 })).stdout
  const isInLake = async () => (await queryFolder(join(store.config.dataDir, 'lake'), 'from orders')).rows.length === 1
  await eventually(isInLake, { what: 'an order in the lake' })

  let endpoint = 'ID'
  const outputs = new Map<string, string>()
  for (const { document, text, key } of blocks.filter(({ key }) => NOT_RUN_HERE[key] === undefined)) {
    const script = text.replaceAll(/\bID\b/g, endpoint).replaceAll('/srv/shop', folder)
    const output = await run(script, document === 'CONTRIBUTING.md' ? ROOT : folder)
    endpoint = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/.exec(script.includes('webhook add') ? output : '')?.[0] ?? endpoint
    outputs.set(key, output)
    const secret = join(folder, 'new-secret')
    if (existsSync(secret)) env.STOREFRONT_SECRET = readFileSync(secret, 'utf8').trim()
  }
  const outputOf = (part: string) => [...outputs].find(([key]) => key.includes(part))?.[1] ?? assert.fail(`no block has ${part}`)
  assert.match(outputOf('webhook add'), /whsec_/)
  assert.match(outputOf('webhook list'), new RegExp(endpoint))
  assert.match(outputOf('webhook rotate'), /whsec_/)
  assert.match(outputOf('lake query'), /^pending +\| 1$[\s\S]*"order_number":\s?"100001"/m)
  assert.match(outputOf('npm test -- src/money.test.ts'), /^ℹ fail 0$/m)
})

test('documents name only commands that exist, with options that they have', () => {
  let found = 0
  for (const document of DOCUMENTS) {
    for (const [code, words = ''] of textOf(document).matchAll(/`(?:\.\/)?storefront ((?:[a-z]|--)[^`]*)`/g)) {
      const [first, second = ''] = words.split(/\s+/)
      if (['help', '--version', '--help'].includes(first ?? '')) continue
      const command = COMMANDS.find(({ name }) => name === first || name === `${first} ${second}`)
      assert.ok(command !== undefined, `${document}: ${code}`)
      for (const [, option = ''] of words.matchAll(/(?<![\w-])--([a-z-]+)/g)) {
        const isArgument = command.arguments.some((argument) => argument.or === option)
        assert.ok(Object.hasOwn(command.options, option) || isArgument, `${document}: ${code} has no --${option}`)
      }
      found++
    }
  }
  assert.ok(found > 60, `${found}`)
})

/** A secret, headers and a body of a webhook, and whether a receiver must take it. */
function webhookCases() {
  const [secret, next] = [generateWebhookSecret(), generateWebhookSecret()]
  const body = '{"id": "é"}'
  const headers = { ...signWebhook([next, secret], 'an-order.1', new Date(), body) }
  const late = { ...signWebhook([secret], 'an-order.1', new Date(Date.now() - 301_000), body) }
  return [
    { secret, headers, body, expected: true },
    { secret: next, headers, body, expected: true },
    { secret: generateWebhookSecret(), headers, body, expected: false },
    { secret, headers, body: '{"id": "e"}', expected: false },
    { secret, headers: late, body, expected: false },
  ]
}

test('the JavaScript in docs/shop/webhooks.md tells authentic webhooks from others', async () => {
  const [, code = ''] = /```js\n([\s\S]*?)```/.exec(textOf('docs/shop/webhooks.md')) ?? []
  const { isAuthentic } = await import(`data:text/javascript,${encodeURIComponent(`${code}\nexport { isAuthentic }`)}`)
  for (const { secret, headers, body, expected } of webhookCases()) assert.equal(isAuthentic(secret, headers, Buffer.from(body)), expected)
})

const NO_PYTHON = spawnSync('python3', ['--version']).error !== undefined && 'needs python3'

test('the Python in docs/shop/webhooks.md tells authentic webhooks from others', { skip: NO_PYTHON }, () => {
  const [, code = ''] = /```python\n([\s\S]*?)```/.exec(textOf('docs/shop/webhooks.md')) ?? []
  const script = `${code}\nimport json, sys\nfor case in json.load(sys.stdin):
    print(is_authentic(case["secret"], case["headers"], case["body"].encode()))`
  const cases = webhookCases()
  const { stdout, stderr } = spawnSync('python3', ['-c', script], { input: JSON.stringify(cases), encoding: 'utf8' })
  assert.equal(stdout, cases.map(({ expected }) => (expected ? 'True\n' : 'False\n')).join(''), stderr)
})

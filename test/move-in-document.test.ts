import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createReadStream, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { readImportLines } from '../src/catalogue/import/import-lines.ts'
import { readCustomer } from '../src/move-in/customer-line.ts'
import { readOrder } from '../src/move-in/order-line.ts'
import type { Cleanup } from './cleanup.ts'
import { MEDUSA_CUSTOMERS, MEDUSA_ORDER } from './medusa-export.ts'
import { moveCustomersIn, moveOrdersIn } from './move-in-harness.ts'
import { writeShopifyExport, writeWooCommerceExport } from './peer-exports.ts'
import { magentoCsv, medusaProduct, shopifyJsonl, wooProduct } from './sample-exports.ts'
import { startStore } from './store.ts'
import { makeTestFolder } from './test-folder.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DOCUMENT = readFileSync(join(ROOT, 'docs/operate/move-in.md'), 'utf8')
const BCRYPT = '$2y$10$abcdefghijklmnopqrstuuMjqeRRMw4ZKN8D5l6vArgO1H7dflcbO'

/** A folder with the exports of each shop, under the names of the document. */
function makeExports(t: Cleanup) {
  const folder = makeTestFolder(t, 'storefront-converters-')
  const write = (name: string, value: unknown) => writeFileSync(join(folder, name), `${JSON.stringify(value)}\n`)
  for (const [shop, { files }] of [
    ['shopify', writeShopifyExport(folder, 20)],
    ['woocommerce', writeWooCommerceExport(folder, 20, () => BCRYPT)],
  ] as const)
    for (const [name, path = ''] of Object.entries(files))
      renameSync(path, join(dirname(path), `${shop}-${name}.${shop === 'shopify' ? 'jsonl' : 'json'}`))
  const samples = { 'shopify-products.jsonl': shopifyJsonl, 'woocommerce-products.json': wooProduct, 'medusa-products.json': medusaProduct }
  for (const [name, make] of Object.entries({ ...samples, 'magento-products.csv': magentoCsv })) writeFileSync(join(folder, name), make({}))
  write('medusa-customers.json', MEDUSA_CUSTOMERS)
  write('medusa-orders.json', { orders: [MEDUSA_ORDER] })
  writeFileSync(join(folder, 'medusa-hashes.jsonl'), `${JSON.stringify({ email: 'ada@example.com', password: BCRYPT })}\n`)
  writeFileSync(join(folder, 'orders.csv'), 'Name,Email,Total\n"#1001",ada@example.com,12.50\n')
  // The command of the document, on this copy of the program.
  const sh = (command: string) =>
    spawnSync('sh', ['-c', command.replace(/^\.\/storefront/, `'${process.execPath}' '${join(ROOT, 'bin/storefront.mjs')}'`)], {
      cwd: folder,
      encoding: 'utf8',
    })
  const linesOf = (name: string) => readFileSync(join(folder, name), 'utf8').trim().split('\n')
  return { folder, sh, linesOf }
}

test('the sample lines of the document are imported', async (t) => {
  const samples = [...DOCUMENT.matchAll(/^```json\n([\s\S]*?)```/gm)].map(([, text = '']) => text.replaceAll('\n', ''))
  const [customer = '', order = ''] = samples
  assert.equal(samples.length, 2)
  const store = await startStore(t)
  for (const moved of [await moveCustomersIn(store, [customer]), await moveOrdersIn(store, [order])])
    assert.deepEqual([moved.problems, moved.outcomes.created, moved.isEqual], [[], 1, true])
})

test('the commands for each shop convert its exports into lines that the import accepts, customers and guests in one file', async (t) => {
  const { folder, sh, linesOf } = makeExports(t)
  const now = new Date()
  for (const [shop, count] of Object.entries({ shopify: 4, woocommerce: 4, medusa: 3, magento: 1 })) {
    const commands = [...DOCUMENT.matchAll(new RegExp(`^\\./storefront convert ${shop} .*>.*$`, 'gm'))].map(([line]) => line)
    assert.equal(commands.length, count)
    for (const command of commands) {
      const { status, stderr } = sh(command)
      assert.deepEqual([status, stderr], [0, ''], command)
    }
    const lines = readImportLines(createReadStream(join(folder, 'products.ndjson')), { fileName: 'products.ndjson', currency: 'EUR' })
    for await (const line of lines) assert.ok('product' in line, JSON.stringify(line))
    if (shop === 'magento') continue
    for (const what of ['customers', 'orders']) {
      assert.ok(DOCUMENT.includes(`./storefront import ${what} ${what}.ndjson --source ${shop}\n`))
      const read = what === 'customers' ? (line: unknown) => readCustomer(line, now, false) : (line: unknown) => readOrder(line, now)
      for (const line of linesOf(`${what}.ndjson`)) assert.ok(read(JSON.parse(line)))
    }
    const customers = linesOf('customers.ndjson').map((line) => JSON.parse(line))
    assert.ok(customers.some(({ guest }) => guest === true) && customers.some(({ guest }) => guest !== true))
  }
})

test('a converter refuses a wrong file or a missing argument in one line that says what it expects, with status 2', (t) => {
  const { sh } = makeExports(t)
  const refusals: [string, RegExp][] = [
    ['shopify orders orders.csv', /orders\.csv is no JSON; expected the JSONL of a bulk operation on orders/],
    [
      'shopify products orders.csv --currency EUR',
      /orders\.csv lacks the columns handle, .*expected the product export of the Shopify admin/,
    ],
    ['shopify guests shopify-customers.jsonl', /shopify-customers\.jsonl: .*lacks .*currencyCode.*bulk operation on orders/],
    ['shopify customers shopify-orders.jsonl', /lacks firstName.*bulk operation on customers/],
    ['shopify products shopify-products.jsonl', /the currency of the prices is missing.*--currency EUR/],
    ['shopify orders nowhere.jsonl', /nowhere\.jsonl cannot be read/],
    ['woocommerce guests woocommerce-customers.json', /lacks .*billing.*pages of \/wp-json\/wc\/v3\/orders/],
    ['woocommerce customers woocommerce-orders.json', /lacks email/],
    ['woocommerce customers woocommerce-customers.json --passwords woocommerce-orders.json', /lacks ID, user_pass.*wp user list/],
    ['woocommerce products nowhere.json --currency EUR', /nowhere\.json cannot be read/],
    ['medusa orders medusa-customers.json', /lacks .*display_id, items, currency_code.*\/admin\/orders/],
    ['medusa guests medusa-orders.json', /no converter for guests of medusa; it converts products, customers, orders/],
    [
      'oscommerce products medusa-orders.json',
      /no converter for oscommerce; there is one for each of shopify, woocommerce, medusa, magento/,
    ],
  ]
  for (const [command, message] of refusals) {
    const { status, stdout, stderr } = sh(`./storefront convert ${command}`)
    assert.deepEqual([status, stdout], [2, ''], `${command}: ${stderr}`)
    assert.match(stderr, message)
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
  }
})

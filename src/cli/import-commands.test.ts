import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { startStore } from '../../test/store.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { proveProducts } from './import-commands.ts'

/** Returns a function that prints what `storefront catalogue import --prove` prints for files with these contents. */
async function startImports(t: TestContext) {
  const { pool, config, addresses } = await startStore(t)
  const folder = makeTestFolder(t, 'import-')
  return async (name: string, content: string, isDryRun = false) => {
    writeFileSync(join(folder, name), content)
    const lines: string[] = []
    const print = (line: string) => void lines.push(line)
    const terminal = { out: print, err: print, exit: () => assert.fail('exits') }
    const values = { isDryRun, json: false, format: undefined, encoding: undefined }
    const status = await proveProducts({ pool, config, addresses, terminal, logger }, join(folder, name), values)
    return { status, lines }
  }
}

const logger = pino({ level: 'silent' })
const line = (sku: string) => `${JSON.stringify({ sku, name: sku, category: 'Kitchen', price: { amount: 850, currency: 'EUR' } })}\n`

test('a dry run of products shows how many are new and how many the store has', async (t) => {
  const run = await startImports(t)
  assert.equal((await run('first.ndjson', line('MUG-1'))).status, 0)
  const dry = await run('second.ndjson', line('MUG-1') + line('MUG-2') + line('MUG-3'), true)
  assert.deepEqual(dry, { status: 0, lines: ['dry run: 2 created, 0 refused, 1 present', 'every line can be imported'] })
})

test('the proof counts the drafts and the active products of lines that have a status', async (t) => {
  const run = await startImports(t)
  const withStatus = (sku: string, status: string) => `${JSON.stringify({ ...JSON.parse(line(sku)), status })}\n`
  const first = await run('first.ndjson', withStatus('MUG-1', 'draft') + withStatus('MUG-2', 'active') + line('MUG-3'))
  assert.match(first.lines.join('\n'), /active products +\| 1 +\| +\| 1 +\| +\| equal\ndraft products +\| 1 +\| +\| 1 +\| +\| equal/)
  const second = await run('second.ndjson', withStatus('MUG-1', 'active') + withStatus('MUG-2', 'active'))
  assert.match(second.lines.join('\n'), /active products +\| 2 +\| +\| 2 +\| +\| equal/)
  assert.deepEqual([first.status, second.status], [0, 0])
})

test("refuses another shop system's export, naming the command that converts it, and compares nothing", async (t) => {
  const run = await startImports(t)
  const { status, lines } = await run('shopify.csv', 'Handle,Title,Variant SKU,Variant Price\nmug,Mug,MUG-1,8.50\n')
  assert.equal(status, 1)
  assert.match(lines[0] ?? '', /^line 1: the file is an export of Shopify: .*storefront convert shopify products FILE/)
  assert.deepEqual(lines.slice(1), ['0 created, 1 refused'])
})

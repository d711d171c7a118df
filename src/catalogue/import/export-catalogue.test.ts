import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { createTestDatabase } from '../../../test/database.ts'
import type { Pool } from '../../db/pool.ts'
import { exportCatalogue } from './export-catalogue.ts'
import { importCatalogue } from './import-catalogue.ts'
import { type ImportFormat, readImportLines } from './import-lines.ts'

const FILE = [
  { sku: 'B', name: 'Tom\'s "big" mug, \\N', category: 'K\\tchen', price: { amount: 1250, currency: 'EUR' }, stock: 0 },
  { sku: 'A', name: 'Cup', description: 'Two\nlines,\tand "more"', category: 'Kitchen', price: { amount: 7, currency: 'JPY' } },
  {
    ...{ sku: 'C', name: 'Shirt', category: 'Clothes', price: { amount: 1999, currency: 'KWD' }, stock: 12, group: 'shirt' },
    ...{ options: { size: 'M', 'c"o,l': 'rëd' }, image_url: 'https://images.example/c.jpg' },
  },
]
  .map((product) => JSON.stringify(product))
  .join('\n')

async function exportAll(pool: Pool, format: ImportFormat): Promise<string> {
  return (await Array.fromAsync(exportCatalogue(pool, format, { withStock: true }))).join('')
}

async function importText(pool: Pool, text: string, format: ImportFormat) {
  const lines = readImportLines(Readable.from([Buffer.from(text)]), { format, currency: 'EUR' })
  return importCatalogue(pool, lines, (line, reason) => assert.fail(`${line}: ${reason}`))
}

for (const format of ['ndjson', 'csv'] as const) {
  test(`what is exported as ${format} with its stock creates the same catalogue elsewhere, and changes nothing in its source`, async (t) => {
    const [{ pool }, { pool: other }] = [await createTestDatabase(t), await createTestDatabase(t)]
    await importText(pool, FILE, 'ndjson')
    const text = await exportAll(pool, format)
    assert.deepEqual(await importText(pool, text, format), { created: 0, updated: 0, unchanged: 3, failed: 0 })
    assert.deepEqual(await importText(other, text, format), { created: 3, updated: 0, unchanged: 0, failed: 0 })
    assert.equal(await exportAll(other, format), text)
  })
}

test('leaves out archived products, and an import of one sells it again', async (t) => {
  const { pool } = await createTestDatabase(t)
  await importText(pool, FILE, 'ndjson')
  await pool.query(`update products set archived_at = now() where sku = 'B'`)
  assert.deepEqual(
    (await exportAll(pool, 'ndjson'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).sku),
    ['A', 'C'],
  )
  assert.deepEqual(await importText(pool, FILE, 'ndjson'), { created: 0, updated: 1, unchanged: 2, failed: 0 })
  assert.equal((await exportAll(pool, 'csv')).split('\n').length, 6)
})

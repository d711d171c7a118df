import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeenSkus } from './seen-skus.ts'

test('knows the first line of each of many skus', () => {
  const seen = new SeenSkus()
  for (let line = 1; line <= 50_000; line++) assert.equal(seen.add(`SKU-${line}`, line), undefined)
  for (let line = 1; line <= 50_000; line += 7) assert.equal(seen.add(`SKU-${line}`, 60_000), line)
  assert.equal(seen.add('sku-1', 60_001), undefined, 'another case is another sku')
})

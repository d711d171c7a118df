import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig, readEnvironment } from '../config.ts'

test('takes the address of a product in the shop with a place for its slug, and refuses what would lead elsewhere', () => {
  const places = [
    'https://shop.example/{slug}',
    'http://localhost:4000/#/products/{slug}',
    'https://shop.example?p={slug}&again={slug}',
    'https://shop.example/{lang}/{slug}',
  ]
  for (const url of places) assert.equal(readConfig({ SHOP_PRODUCT_URL: url }).shopProductUrl, url)
  for (const url of [
    ...['https://shop.example/products', 'https://{slug}.shop.example/', 'https://{slug}/', 'https://shop.example{slug}', '{slug}'],
    ...[
      'javascript:alert({slug})',
      'ftp://shop.example/{slug}',
      'https://user:secret@shop.example/{slug}',
      'https://shop.example/{slug}/{id}',
    ],
    ...[
      'https://shop.example/ {slug}',
      '//shop.example/{slug}',
      'https://shop.example/{slug',
      'https:///{slug}',
      'https://shop.example:{slug}/',
    ],
  ]) {
    const { problems, config } = readEnvironment({ SHOP_PRODUCT_URL: url })
    assert.equal(config.shopProductUrl, null)
    assert.match(problems.join(), /^SHOP_PRODUCT_URL must be a URL .* with \{slug\} and perhaps \{lang\} behind the host/, url)
    assert.doesNotMatch(problems.join(), /secret/)
  }
})

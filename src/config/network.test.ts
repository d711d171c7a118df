import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig, readEnvironment } from '../config.ts'

test("accepts a shop's product address with a placeholder for the slug, and refuses addresses that lead elsewhere", () => {
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

test('limits by network are off if only this machine reaches the store, unless they are set', () => {
  const isLimited = (env: NodeJS.ProcessEnv) => readConfig(env).isNetworkLimited
  assert.equal(isLimited({}), false)
  assert.equal(isLimited({ HOST: '::1', BASE_URL: 'http://[::1]:3000' }), false)
  assert.equal(isLimited({ HOST: 'localhost', BASE_URL: 'http://shop.localhost' }), false)
  assert.equal(isLimited({ BASE_URL: 'https://shop.example' }), true)
  assert.equal(isLimited({ HOST: '0.0.0.0' }), true)
  assert.equal(isLimited({ TRUST_PROXY: '1' }), true)
  assert.equal(isLimited({ RATE_LIMITS: 'on' }), true)
  assert.equal(isLimited({ BASE_URL: 'https://shop.example', RATE_LIMITS: 'off' }), false)
})

test('accepts a list of origins as browsers send them, all origins, or none', () => {
  assert.deepEqual([readConfig({}).corsOrigins, readConfig({ CORS_ORIGINS: '*' }).corsOrigins], [null, '*'])
  assert.deepEqual(readConfig({ CORS_ORIGINS: 'https://shop.example/' }).corsOrigins, ['https://shop.example'], 'as copied from a browser')
  for (const origin of [
    ...['https://shop.example//', 'https://shop.example/a', 'HTTPS://shop.example', 'https://Shop.example', 'https://shop.example:443'],
    ...[
      'shop.example',
      'null',
      'https://*.shop.example',
      'https://me@shop.example',
      'https://a,*',
      'https://a,',
      'http://',
      '* '.repeat(2),
    ],
  ]) {
    assert.match(readEnvironment({ CORS_ORIGINS: origin }).problems.join(), /^CORS_ORIGINS must be \*, or origins such as/, origin)
  }
})

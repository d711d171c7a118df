import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collectLog } from '../../test/logs.ts'
import { startStore } from '../../test/store.ts'
import { readConfig } from '../config.ts'
import { warnAboutSettings } from './warn-about-settings.ts'

test('links and the OpenAPI document contain the public address, whatever path a proxy maps to BASE_PATH', async (t) => {
  for (const [publicUrl, basePath] of [
    ['https://shop.example/v1', '/v1'],
    ['https://shop.example/api/v1', '/v1'],
    ['https://shop.example', '/v1'],
    // This path is a prefix of a route's own path.
    ['https://shop.example/prod', ''],
  ] as const) {
    const store = await startStore(t, { baseUrl: publicUrl, basePath })
    const call = (url: string) => {
      assert.ok(url.startsWith(`${publicUrl}/`), url)
      return store.call('GET', `${basePath}${url.slice(publicUrl.length)}`)
    }
    const products = [await store.addProduct({}), await store.addProduct({})]
    const first = await call(`${publicUrl}/products?limit=1`)
    const [, next = ''] = /<([^<>]+)>; rel="next"/.exec(first.headers.link ?? '') ?? []
    const second = await call(next)
    const shown = [...first.json.data, ...second.json.data].map(({ id }: { id: string }) => id)
    assert.deepEqual(shown.toSorted(), products.map(({ id }) => id).toSorted())
    const { servers, paths } = (await call(`${publicUrl}/openapi.json`)).json
    assert.deepEqual(servers, [{ url: publicUrl }])
    assert.ok('/products' in paths && '/products/{id}' in paths, Object.keys(paths).join(' '))
  }
})

test('the start warns when the paths of BASE_URL and BASE_PATH differ', () => {
  const warnings = (settings: Record<string, string>) => {
    const { logger, entries: lines } = collectLog<{ level: number; msg: string }>()
    warnAboutSettings(readConfig(settings), logger)
    return lines.map(({ msg }) => msg)
  }
  const text = (shown: string, served: string) => [
    `the path of BASE_URL is ${shown} and BASE_PATH ${served}: links lead nowhere unless a proxy maps ${shown} to ${served}`,
  ]
  assert.deepEqual(warnings({ BASE_URL: 'https://shop.example/api' }), text('/api', '/'))
  assert.deepEqual(warnings({ BASE_URL: 'https://shop.example/', BASE_PATH: '/v1' }), text('/', '/v1'))
  assert.deepEqual(warnings({ BASE_URL: 'https://shop.example/v1', BASE_PATH: '/v1/' }), [])
  assert.deepEqual(warnings({ BASE_URL: 'https://shop.example/' }), [])
  assert.deepEqual(warnings({ BASE_PATH: '/v1' }), [])
  assert.deepEqual(warnings({ BASE_URL: 'https://shop.example/api', ROLES: 'lake' }), [], 'only the API makes links')
})

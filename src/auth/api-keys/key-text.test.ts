import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { EXAMPLE_NEW_API_KEY } from '../examples.ts'
import { containsKey, formatKey, isMeantAsKey, KEY_PATTERN, newSecret, parseKey } from './key-text.ts'

test('a key has the documented form, and parsing it gives its id and secret', () => {
  for (let i = 0; i < 200; i++) {
    const text = { id: randomUUID(), secret: newSecret() }
    const key = formatKey(text)
    assert.match(key, new RegExp(KEY_PATTERN))
    assert.match(key, /^\w+$/, 'a double click selects all of it')
    assert.deepEqual(parseKey(key), text)
    assert.ok(isMeantAsKey(key))
  }
})

test('a secret scanner that uses only docs/inside/security.md recognises a key by its pattern and checksum', () => {
  const document = readFileSync(new URL('../../../docs/inside/security.md', import.meta.url), 'utf8')
  const [, documented = ''] = /`(storefront_key_\[.*?)`/.exec(document) ?? []
  assert.equal(`^${documented}$`, KEY_PATTERN)
  const key = formatKey({ id: randomUUID(), secret: newSecret() })
  const [found = ''] = new RegExp(documented).exec(`KEY="${key}"\n`) ?? []
  assert.equal(found, key)
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  const value = [...found.slice(-6)].reduce((sum, digit) => sum * 62 + digits.indexOf(digit), 0)
  assert.equal(value, crc32(found.slice(0, -7)))
})

test('detects any single changed, missing, doubled or added character without reading a stored key', () => {
  const key = formatKey({ id: randomUUID(), secret: newSecret() })
  for (let at = 0; at < key.length; at++) {
    const [before, character = '', after] = [key.slice(0, at), key[at], key.slice(at + 1)]
    const swapped = character === character.toLowerCase() ? character.toUpperCase() : character.toLowerCase()
    const others = [`${before}${after}`, `${before}${character}${character}${after}`, `${before}0${character}${after}`]
    for (const other of [swapped, character === 'x' ? 'y' : 'x', '-', ' ', 'é'])
      if (other !== character) others.push(`${before}${other}${after}`)
    for (const other of others) if (other !== key) assert.equal(parseKey(other), null, other)
  }
  for (const wrong of ['', key.toUpperCase(), key.toLowerCase(), `${key}\n`, ` ${key}`, key.repeat(2), EXAMPLE_NEW_API_KEY.key])
    assert.equal(parseKey(wrong), null, wrong)
})

test('secrets have 256 random bits: none are equal, and each position takes every digit', () => {
  const secrets = Array.from({ length: 3_000 }, newSecret)
  assert.equal(new Set(secrets).size, secrets.length)
  for (let place = 1; place < 43; place++) assert.equal(new Set(secrets.map((secret) => secret[place])).size, 62, `place ${place}`)
})

test('finds a key in an address, even percent-encoded or truncated', () => {
  const key = formatKey({ id: randomUUID(), secret: newSecret() })
  for (const url of [
    `/me?key=${key}`,
    `/${key}`,
    `/me?${key}`,
    `/me?a=${key.replaceAll('_', '%5F')}`,
    '/me?a=STOREFRONT_KEY_1',
    '/me?a=storefront%5fkey_',
  ])
    assert.ok(containsKey(url), url)
  for (const url of ['/me', '/products?q=storefront+key', '/admin/api-keys']) assert.ok(!containsKey(url), url)
})

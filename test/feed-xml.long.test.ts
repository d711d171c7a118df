import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

const GOOGLE = 'http://base.google.com/ns/1.0'
/** Runs in the browser, whose XML parser refuses whatever is not well-formed. */
const READ = `(xml) => {
  const found = new DOMParser().parseFromString(xml, 'application/xml')
  const error = found.querySelector('parsererror')
  if (error !== null) return { error: error.textContent }
  const items = [...found.documentElement.querySelectorAll('item')].map((item) =>
    [...item.children].map(({ namespaceURI, localName, textContent }) => [namespaceURI, localName, textContent]))
  return { root: found.documentElement.nodeName, items }
}`

test('another XML parser reads the feed, whatever characters texts have', { skip: NO_CHROMIUM }, async (t) => {
  const store = await startStore(t, { shopProductUrl: 'https://shop.example/{slug}?a=1&b=2' })
  const { token } = await registerOperator(store)
  // All characters of the first plane that the API takes, some beyond it, and what ends or begins markup.
  const all = Array.from({ length: 0xfffe }, (_, code) =>
    code === 0 || (code >= 0xd800 && code <= 0xdfff) ? '' : String.fromCharCode(code),
  ).join('')
  const texts = [
    '\u{1F9E6}\u{10FFFF}\u202eRTL',
    ']]><![CDATA[<x>&amp;&#0;',
    '<?xml ?><!DOCTYPE x [<!ENTITY y "z">]>&y;',
    '\ufffe\uffff\u0001\u001b[0m\r\n\t\u0085\u2028',
  ]
  const descriptions = [...texts, ...(all.match(/.{1,4900}/gsu) ?? [])]
  for (const [index, description] of descriptions.entries()) {
    const body = { sku: `S${index}`, name: `N <${index}> & ]]>`, description, category: 'a & b', price: { amount: index, currency: 'KWD' } }
    const { status, text } = await store.call('POST', '/admin/products', { token, body })
    assert.equal(status, 201, text)
  }
  const { text } = await store.call('GET', '/feeds/products.xml')
  const { page } = await (await openBrowser(t)).open()
  const read = (await page.evaluate(`(${READ})(${JSON.stringify(text)})`)) as {
    error?: string
    root: string
    items: [string | null, string, string][][]
  }
  assert.equal(read.error, undefined)
  assert.equal(read.root, 'rss')
  assert.equal(read.items.length, descriptions.length)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what the feed leaves out
  const expected = descriptions.map((one) => one.trim() && one.replace(/[\u0001-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, ''))
  for (const [index, item] of read.items.entries()) {
    const fields = new Map(item.map(([namespace, name, value]) => [`${namespace === GOOGLE ? 'g:' : (namespace ?? '')}${name}`, value]))
    assert.equal(fields.get('title'), `N <${index}> & ]]>`)
    assert.equal(fields.get('description')?.trim(), expected[index]?.trim())
    assert.equal(fields.get('link'), `https://shop.example/n-${index}?a=1&b=2`)
    assert.equal(fields.get('g:price'), `0.${String(index).padStart(3, '0')} KWD`)
  }
})

import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { AppError } from '../errors.ts'
import { ClientAddresses, networkOf, readAddress, siteOf, type TrustedProxies } from './client-address.ts'

const PROXY = '10.0.0.1'

/** Finds a client's address, or the code of the refusal, and collects the reports. */
function find(headers: Record<string, string>, trusted: TrustedProxies = 1, remoteAddress = PROXY) {
  const reports: string[] = []
  const addresses = new ClientAddresses(trusted, {
    onUntrusted: (peer) => void reports.push(`untrusted ${peer}`),
    onUnreadable: (header, address) => void reports.push(`${header}: ${address}`),
    onUnread: (header) => void reports.push(`unread ${header}`),
  })
  const request = { headers, socket: { remoteAddress } } as never
  addresses.watch(request)
  try {
    return { address: addresses.find(request), reports }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return { address: error.code, reports }
  }
}
const by = (list: string, trusted?: TrustedProxies) => find({ 'x-forwarded-for': list }, trusted).address
const canonical = (address: string) => (isIP(address) === 6 ? new URL(`http://[${address}]`).hostname : address)

test('reports a trusted proxy that names the client only in X-Real-IP', () => {
  assert.deepEqual(find({ 'x-real-ip': '192.0.2.7' }), { address: PROXY, reports: ['unread x-real-ip'] })
  assert.deepEqual(find({ 'x-real-ip': '192.0.2.7', 'x-forwarded-for': '192.0.2.7' }), { address: '192.0.2.7', reports: [] })
})

test('returns an IPv4 address in one form', () => {
  for (const address of ['192.0.2.7', '::ffff:192.0.2.7', '::FFFF:c000:207', '0:0:0:0:0:ffff:192.0.2.7']) {
    assert.equal(find({}, false, address).address, '192.0.2.7')
    assert.equal(by(address), '192.0.2.7')
  }
})

test('reads every form in which proxies write an address', () => {
  const [v4, v6] = [fc.ipV4(), fc.ipV6().filter((address) => isIP(address) === 6 && !/ffff:|\./i.test(address))]
  const port = fc.oneof(
    fc.integer({ min: 0, max: 65_535 }).map((number) => `:${number}`),
    fc.constant(':_gazonk'),
    fc.constant(''),
  )
  const zone = fc.constantFrom('', '%eth0', '%25eth0', '%3', '%a:b')
  const written = fc.oneof(
    fc.tuple(v4, port).map(([address, end]) => ({ address, text: `${address}${end}` })),
    fc.tuple(v4, port).map(([address, end]) => ({ address, text: `[::ffff:${address}]${end}` })),
    fc.tuple(v4).map(([address]) => ({ address, text: `::ffff:${address}` })),
    fc.tuple(v6, zone, port).map(([address, behind, end]) => ({ address, text: `[${address}${behind}]${end}` })),
    fc.tuple(v6, zone).map(([address, behind]) => ({ address, text: `${address}${behind}` })),
    fc.tuple(v4).map(([address]) => ({ address: '2001:db8:0:0:0:0:0:1', text: `2001:db8:0:0:0:0:0:1:${address.length + 400}` })),
  )
  const before = fc.array(fc.constantFrom('unknown', '', '_hidden', '203.0.113.9', '"', ' '), { maxLength: 4 })
  fc.assert(
    fc.property(written, before, fc.boolean(), fc.constantFrom(', ', ',', ' ,\t'), ({ address, text }, others, isQuoted, separator) => {
      const one = isQuoted ? `"${text}"` : text
      assert.equal(canonical(readAddress(one) ?? ''), canonical(address), one)
      assert.equal(canonical(by([...others, one].join(separator))), canonical(address), 'X-Forwarded-For')
      const pairs = [`for=${one}`, `For=${one};proto=https;by=203.0.113.43`, `host="a,for=6.6.6.6;b";FOR=${one}`]
      for (const pair of pairs) {
        for (const head of ['', 'for=unknown, ', 'for=192.0.2.60;proto=http;by=203.0.113.43, ', 'for="_a",,', 'for="a\\"b,c", ']) {
          assert.equal(canonical(find({ forwarded: head + pair }).address), canonical(address), head + pair)
        }
      }
    }),
  )
})

test('refuses and reports an unreadable address, and never takes the proxy for the client', () => {
  const unreadable = [
    'unknown',
    'UNKNOWN',
    '_obfuscated',
    '"',
    '',
    ' ',
    ',',
    '999.1.1.1',
    '1.2.3',
    "'; drop table users",
    '1.2.3.4:5:6',
    '[',
    '[]',
  ]
  for (const text of [...unreadable, '[1.2.3.4', '1.2.3.4:999999', '::1::2', 'client.example', '1.2.3.4;', '0x7f000001', '-', '%eth0']) {
    const refused = find({ 'x-forwarded-for': text })
    assert.equal(refused.address, 'malformed_request', text)
    assert.equal(refused.reports.length, 1, text)
    assert.equal(by(`203.0.113.9, ${text || 'x'}`) === 'malformed_request', !/^[ ,]+$/.test(text), text)
  }
  for (const text of [
    ...unreadable,
    'for=',
    'for',
    'proto=https',
    'for="1.2.3.4',
    'for=1.2.3.4 x',
    'for=unknown',
    'for="_x"',
    'for=1.2.3.4,"',
  ]) {
    assert.equal(find({ forwarded: text }).address, 'malformed_request', text)
  }
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), (text) => {
      for (const name of ['x-forwarded-for', 'forwarded']) {
        const { address, reports } = find({ [name]: text })
        assert.notEqual(address, PROXY)
        assert.equal(address === 'malformed_request', reports.length === 1)
        assert.ok(address === 'malformed_request' || isIP(address) !== 0)
      }
    }),
    { numRuns: 2_000 },
  )
})

test("looks no further than the trusted proxies, and uses the connection's address without forwarding headers", () => {
  assert.equal(by('6.6.6.6, 203.0.113.9'), '203.0.113.9')
  assert.equal(by('unknown, 203.0.113.9'), '203.0.113.9')
  assert.equal(by('203.0.113.9, 10.0.0.2', 2), '203.0.113.9')
  assert.equal(by('203.0.113.9', 2), '203.0.113.9')
  assert.equal(by('6.6.6.6, 203.0.113.9, 10.0.0.2:80', ['10.0.0.0/8']), '203.0.113.9')
  assert.equal(by('203.0.113.9, [2001:db8::5]:443', ['10.0.0.0/8', '2001:db8::/32']), '203.0.113.9')
  assert.equal(by('203.0.113.9', ['::ffff:10.0.0.0/104']), '203.0.113.9')
  assert.equal(by('203.0.113.9', ['::ffff:10.0.0.1']), '203.0.113.9')
  assert.equal(find({}, 1).address, PROXY)
  assert.equal(find({ 'x-forwarded-for': '203.0.113.9', forwarded: 'for=6.6.6.6' }).address, '203.0.113.9')
})

test('reports an untrusted peer that forwards', () => {
  for (const trusted of [false, ['10.9.0.0/16']] as const) {
    for (const name of ['x-forwarded-for', 'forwarded', 'x-forwarded-proto', 'x-real-ip']) {
      assert.deepEqual(find({ [name]: '203.0.113.9' }, trusted), { address: PROXY, reports: [`untrusted ${PROXY}`] })
    }
    assert.deepEqual(find({}, trusted).reports, [])
  }
  assert.deepEqual(find({ 'x-forwarded-for': '203.0.113.9' }).reports, [])
})

test('counts an IPv6 client by its /64', () => {
  assert.equal(networkOf('192.0.2.7'), '192.0.2.7')
  for (const address of ['2001:db8:1:2::1', '2001:DB8:1:2:ffff:ffff:ffff:ffff', '2001:0db8:0001:0002:0:0:0:9']) {
    assert.equal(networkOf(address), '2001:db8:1:2::/64')
  }
  assert.equal(networkOf('::1'), '0:0:0:0::/64')
  assert.equal(networkOf('fe80::1%eth0'), 'fe80:0:0:0::/64')
})

test("returns an IPv6 client's /48, and an IPv4 client's whole address", () => {
  assert.equal(siteOf('2001:db8:1:2::1'), '2001:db8:1::/48')
  assert.equal(siteOf('2001:0DB8:0001:ffff:0:0:0:9'), '2001:db8:1::/48')
  assert.equal(siteOf('::1'), '0:0:0::/48')
  assert.equal(siteOf('192.0.2.7'), '192.0.2.7')
})

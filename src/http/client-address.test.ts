import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clientAddress, networkOf, siteOf } from './client-address.ts'

const at = (ip: string, remoteAddress = '10.0.0.1') => clientAddress({ ip, socket: { remoteAddress } } as never)

test('returns an IPv4 address in one form', () => {
  assert.equal(at('192.0.2.7'), '192.0.2.7')
  assert.equal(at('::ffff:192.0.2.7'), '192.0.2.7')
})

test('falls back to the connection when a proxy forwards an invalid address', () => {
  for (const rubbish of ['unknown', '', '1.2.3.4:5', '999.1.1.1', "'; drop table users"]) assert.equal(at(rubbish), '10.0.0.1')
})

test('counts an IPv6 client by its /64', () => {
  assert.equal(networkOf('192.0.2.7'), '192.0.2.7')
  for (const address of ['2001:db8:1:2::1', '2001:DB8:1:2:ffff:ffff:ffff:ffff', '2001:0db8:0001:0002:0:0:0:9']) {
    assert.equal(networkOf(address), '2001:db8:1:2::/64')
  }
  assert.equal(networkOf('::1'), '0:0:0:0::/64')
  assert.equal(networkOf('fe80::1%eth0'), 'fe80:0:0:0::/64')
})

test('returns the /48 of an IPv6 client, and none for IPv4', () => {
  assert.equal(siteOf('2001:db8:1:2::1'), '2001:db8:1::/48')
  assert.equal(siteOf('2001:0DB8:0001:ffff:0:0:0:9'), '2001:db8:1::/48')
  assert.equal(siteOf('::1'), '0:0:0::/48')
  assert.equal(siteOf('192.0.2.7'), null)
})

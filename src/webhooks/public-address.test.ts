import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isPublicAddress, PrivateAddress, publicLookup } from './public-address.ts'
import { assertPublicName, readWebhookUrl, toPrintableUrl, WebhookRefused } from './webhook-url.ts'

test('distinguishes addresses of the public internet from all others', () => {
  const PRIVATE = [
    ...['127.0.0.1', '127.255.255.254', '0.0.0.0', '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '169.254.169.254'],
    ...['100.64.0.1', '192.0.0.192', '198.18.0.1', '224.0.0.1', '255.255.255.255', '240.0.0.1', '192.0.2.1', '203.0.113.9'],
    ...['::', '::1', 'fe80::1', 'fe80::1%eth0', 'fc00::1', 'fd00:ec2::254', 'ff02::1', '::ffff:127.0.0.1', '::ffff:7f00:1', '::127.0.0.1'],
    ...['64:ff9b::7f00:1', '64:ff9b::a9fe:a9fe', '2002:7f00:1::', '2001:db8::1', '2001::1', 'fec0::1', '100::1', '5f00::1'],
    ...['', 'localhost', '127.1', '0x7f.0.0.1', '2130706433', '127.0.0.1 '],
  ]
  for (const address of PRIVATE) assert.equal(isPublicAddress(address), false, address)
  for (const address of [
    '1.1.1.1',
    '9.255.255.255',
    '172.32.0.1',
    '172.15.0.1',
    '192.169.0.1',
    '100.128.0.1',
    '2606:4700::1111',
    '2a00:1450::1',
  ]) {
    assert.equal(isPublicAddress(address), true, address)
  }
})

test('a name that resolves only to this machine is refused', async () => {
  for (const all of [true, false]) {
    const { promise, resolve } = Promise.withResolvers<Error | null>()
    publicLookup('localhost', { all }, resolve)
    const error = await promise
    assert.ok(error instanceof PrivateAddress, String(error))
    assert.equal(error.message, 'localhost has no public address')
  }
})

test('accepts https URLs of the public internet, and normalizes them', () => {
  assert.equal(readWebhookUrl('HTTPS://Hooks.Example.com:8443/a b?t=1', false), 'https://hooks.example.com:8443/a%20b?t=1')
  assert.equal(readWebhookUrl('http://127.0.0.1:9000/', true), 'http://127.0.0.1:9000/')
})

test('refuses a URL that must not be an endpoint, and does not repeat it', () => {
  const REFUSED = [
    ...['hooks', 'ftp://hooks.example.com/', 'file:///etc/passwd', 'http://hooks.example.com/', 'javascript:alert(1)'],
    ...['https://user:hunter2@hooks.example.com/', 'https://hunter2@hooks.example.com/', 'https://hooks.example.com/#hunter2'],
    ...['https://127.0.0.1/', 'https://127.1/', 'https://0x7f000001/', 'https://2130706433/', 'https://017700000001/', 'https://[::1]/'],
    ...['https://[::ffff:127.0.0.1]/', 'https://169.254.169.254/latest/meta-data', 'https://[fd00:ec2::254]/', 'https://10.0.0.1/'],
    `https://hooks.example.com/${'x'.repeat(2_000)}`,
  ]
  for (const url of REFUSED) {
    assert.throws(
      () => readWebhookUrl(url, false),
      (error) => error instanceof WebhookRefused && !error.message.includes('hunter2') && !error.message.includes('\n'),
      url,
    )
  }
  assert.throws(() => readWebhookUrl('http://user:hunter2@127.0.0.1/', true), /no user name and no password/)
})

test('shows a URL without its query', () => {
  assert.equal(toPrintableUrl('https://hooks.example.com/a?token=hunter2'), 'https://hooks.example.com/a?…')
  assert.equal(toPrintableUrl('https://hooks.example.com/a'), 'https://hooks.example.com/a')
})

test('refuses an endpoint whose name resolves only to private addresses, and accepts a name that does not resolve', async () => {
  await assert.rejects(assertPublicName('https://localhost/hooks'), { name: 'WebhookRefused', message: /leads to a private address/ })
  await assertPublicName('https://unknown.invalid/')
})

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { nkeys } from '@nats-io/transport-node'
import { Authority, type Certificate, NO_CERTIFICATES } from '../../../test/certificates.ts'
import { createTestDatabase } from '../../../test/database.ts'
import { NatsOperator } from '../../../test/nats-accounts.ts'
import { connectNatsTopic, natsSettings } from '../../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { silent } from '../../../test/stream-harness.ts'
import { idsOf, makeOutgoing, Recording, subscribe } from '../../../test/topic-harness.ts'
import { readConfig } from '../../config.ts'
import { NatsClient, natsConnectOptions } from './connection.ts'

/** The topic as an operator configures it. */
async function makeTopic(t: TestContext, settings: Record<string, string>) {
  const nats = readConfig(settings).nats
  assert.ok(nats !== null)
  return connectNatsTopic(t, await createTestDatabase(t), '', { nats, name: 'orders' })
}

/** Publishes, reads and subscribes. */
async function assertWorks(t: TestContext, settings: Record<string, string>): Promise<void> {
  const topic = await makeTopic(t, settings)
  const before = await topic.newestSequence()
  const sent = makeOutgoing(3)
  await topic.publish(sent)
  assert.deepEqual(idsOf(await topic.read(before, 10)), idsOf(sent))
  const seen = new Recording()
  await subscribe(t, topic, 'reader', seen.handle, { lastSequence: async () => before })
  await seen.until(3)
  assert.deepEqual(seen.ids, idsOf(sent))
}

async function assertRefused(t: TestContext, settings: Record<string, string>, reason: RegExp): Promise<void> {
  const topic = await makeTopic(t, settings)
  await assert.rejects(topic.publish(makeOutgoing(1)), reason)
}

describe('the login', () => {
  const FORMS = [
    { server: 'authorization { token: "p@ss" }', login: 'p%40ss' },
    { server: 'authorization { user: "store", password: "a:b" }', login: 'store:a%3Ab' },
  ]
  for (const { server, login } of FORMS) {
    test(`the login is taken from the address: ${login}`, { skip: NO_NATS }, async (t) => {
      const own = await startNatsServer(t, server)
      const client = new NatsClient(natsSettings(`nats://${login}@127.0.0.1:${own.port}`), 'test', silent)
      const stranger = new NatsClient(natsSettings(own.url), 'test', silent)
      t.after(() => Promise.all([client.close(), stranger.close()]))
      assert.equal((await client.get()).connection.isClosed(), false)
      await assert.rejects(stranger.get(), /authorization/i)
    })
  }

  test('servers and login are taken from the addresses', () => {
    const plain = natsConnectOptions(natsSettings('nats://a:4222, nats://me:pw@b'), 'store')
    assert.deepEqual([plain.servers, plain.user, plain.pass, plain.token, plain.tls], [['a:4222', 'b'], 'me', 'pw', undefined, undefined])
    assert.throws(() => natsConnectOptions(natsSettings('nats://a', { credentialsFile: '/no/such.creds' }), 'store'), /ENOENT/)
  })
})

describe('TLS', { skip: NO_NATS || NO_CERTIFICATES }, () => {
  /** A server with a certificate of `authority`, by default for the server's own address. */
  const startTlsServer = async (t: TestContext, authority: Authority, more = '', name?: string) => {
    const { certFile, keyFile } = authority.issue('server', name)
    const files = { cert_file: certFile, key_file: keyFile, ca_file: authority.caFile }
    const settings = Object.entries(files).map(([name, path]) => `${name}: ${JSON.stringify(path)}`)
    const { port } = await startNatsServer(t, `tls { ${settings.join(', ')} ${more} }`)
    return { port, NATS_URL: `tls://127.0.0.1:${port}`, NATS_CA: authority.caFile }
  }

  test('connects to a server of the configured authority, and to no other', async (t) => {
    const [authority, foreign] = [new Authority(t), new Authority(t)]
    const { port, NATS_URL, NATS_CA } = await startTlsServer(t, authority)
    await assertWorks(t, { NATS_URL, NATS_CA })
    await assertWorks(t, { NATS_URL: `nats://127.0.0.1:${port}`, NATS_CA })
    await assertRefused(t, { NATS_URL, NATS_CA: foreign.caFile }, /certificate/)
    await assertRefused(t, { NATS_URL }, /certificate/)
  })

  test('does not connect to a server whose certificate is for another address', async (t) => {
    const { NATS_URL, NATS_CA } = await startTlsServer(t, new Authority(t), '', 'DNS:localhost, IP:127.0.0.2')
    await assertRefused(t, { NATS_URL, NATS_CA }, /IP: 127\.0\.0\.1 is not in the cert's list/)
    await assertWorks(t, { NATS_URL: NATS_URL.replace('127.0.0.1', 'localhost'), NATS_CA })
  })

  test('presents a client certificate, and a server that verifies certificates refuses clients without one', async (t) => {
    const [authority, foreign] = [new Authority(t), new Authority(t)]
    const { NATS_URL, NATS_CA } = await startTlsServer(t, authority, ', verify: true')
    const login = ({ certFile, keyFile }: Certificate) => ({ NATS_URL, NATS_CA, NATS_CERT: certFile, NATS_KEY: keyFile })
    await assertWorks(t, login(authority.issue('client')))
    // In TLS 1.3 the server refuses after the handshake. The driver waits for its greeting, and does not report the
    // reason.
    const refused = /timeout|certificate|closed/i
    await Promise.all([{ NATS_URL, NATS_CA }, login(foreign.issue('client'))].map((settings) => assertRefused(t, settings, refused)))
  })

  test('with tls:// TLS is required, and a server without it receives no password', async (t) => {
    const { port } = await startNatsServer(t, 'authorization { user: "store", password: "secret" }')
    await assertRefused(t, { NATS_URL: `tls://store:secret@127.0.0.1:${port}` }, /does not support 'tls'/)
  })
})

describe('a credentials file', { skip: NO_NATS }, () => {
  // The permissions that docs/operate/run.md names.
  const permissions = { publish: ['$JS.API.>', 'orders.>'], subscribe: ['_INBOX.>'] }

  test('a credentials file works with the permissions in the documentation, and not with another login', async (t) => {
    const operator = new NatsOperator()
    const { url, directory } = await startNatsServer(t, operator.config)
    const settings = (name: string, text: string) => {
      const file = join(directory, name)
      writeFileSync(file, text)
      return { NATS_URL: url, NATS_CREDENTIALS: file }
    }
    await assertWorks(t, settings('store.creds', operator.credentials(permissions)))
    await assertRefused(t, settings('foreign.creds', new NatsOperator().credentials(permissions)), /authorization/i)
    await assertRefused(t, settings('stolen.creds', operator.credentials(permissions, nkeys.createUser())), /authorization/i)
    await assertRefused(t, { NATS_URL: url }, /authorization/i)
  })
})

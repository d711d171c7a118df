import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { doubtSingleServer } from '../src/topic/nats/inspect-broker.ts'
import { onCleanup } from './cleanup.ts'
import { createTestDatabase } from './database.ts'
import { assertFinding, examine } from './doctor-harness.ts'
import { freePort } from './free-port.ts'
import { connectManager, connectNatsTopic } from './nats-harness.ts'
import { NO_NATS, startNatsServer } from './nats-server.ts'
import { startSmtpServer } from './smtp-server.ts'
import { startVarnish, varnishMissing } from './varnish.ts'

test('a broker that is unavailable, empty, wrongly configured and right', { skip: NO_NATS }, async (t) => {
  const server = await startNatsServer(t, 'max_payload: 100KB\nauthorization { user: store, password: hunter2 }\n')
  const url = (password: string) => server.url.replace('//', `//store:${password}@`)
  const look = (others: Record<string, string> = {}) => examine({ NATS_URL: url('hunter2'), EMBEDDED: 'on', ...others })
  const empty = await look()
  const broker = empty.filter(({ check, status }) => check === 'broker' && status === 'problem')
  assert.deepEqual(
    broker.map(({ found }) => found),
    ['there is no stream ORDERS'],
  )
  assertFinding(empty, 'broker', 'warning', /^max_payload is 102400, and large orders need 1048576$/, /^raise max_payload/)
  assertFinding(
    await look({ NATS_URL: url('wrong') }),
    'broker',
    'problem',
    /^127\.0\.0\.1:\d+: .*authorization violation/i,
    /NATS_URL and its credentials$/,
  )

  // The advice: the store creates the stream.
  await server.end('SIGTERM')
  const away = await look()
  assertFinding(
    away,
    'broker',
    'problem',
    /^127\.0\.0\.1:\d+: connection refused$/,
    /^check that NATS runs with JetStream and can be reached/,
  )
  assert.ok(!JSON.stringify([empty, away]).includes('hunter2'))
})

test('the stream that the store creates is right, and one that loses messages is not until it is edited', { skip: NO_NATS }, async (t) => {
  const server = await startNatsServer(t)
  const look = (others: Record<string, string> = {}) => examine({ NATS_URL: server.url, EMBEDDED: 'on', ...others })
  assertFinding(await look(), 'broker', 'problem', /^there is no stream ORDERS$/, /^start the store: its role stream creates the stream\./)
  const db = await createTestDatabase(t)
  await connectNatsTopic(t, { ...db, name: 'orders' }, server.url).newestPosition()
  // A release before 2.10 has no setting by which a single server is safe.
  const assertRight = (findings: Awaited<ReturnType<typeof look>>) => {
    const isOld = findings.some(({ found }) => /^NATS 2\.[0-9]\./.test(found))
    if (isOld)
      assertFinding(
        findings,
        'broker',
        'warning',
        /is a single server, and a power failure loses its newest messages$/,
        /^run three servers/,
      )
    else
      assertFinding(
        findings,
        'broker',
        'ok',
        /^NATS [\d.]+, 1 in the cluster; .* 1 of 1 replicas, all current; a single server needs sync_interval/,
      )
  }
  assertRight(await look())
  const few = await look({ NATS_REPLICAS: '3' })
  assertFinding(few, 'broker', 'warning', /^the stream has 1 replicas, and NATS_REPLICAS is 3$/, /^restart the role stream/)

  const { streams } = await connectManager(t, server.url)
  await streams.update('ORDERS', { discard: 'old', discard_new_per_subject: false, max_msgs_per_subject: -1 } as never)
  const wrong = await look()
  assertFinding(wrong, 'broker', 'problem', /^the NATS stream ORDERS must have /, /^set that with nats stream edit$/)
  const found = wrong.find(({ check }) => check === 'broker')?.found ?? ''
  const advised = [...found.matchAll(/(\w+)=([^ ,]+)/g)].map(([, key = '', value = '']) => [key, JSON.parse(value)])
  assert.deepEqual(advised.map(([key]) => key).sort(), ['discard', 'discard_new_per_subject', 'max_msgs_per_subject'])
  await streams.update('ORDERS', Object.fromEntries(advised))
  assertRight(await look())
})

test('a mail server that asks for no login is named as one', async (t) => {
  const smtp = await startSmtpServer(t)
  const look = (others: Record<string, string> = {}) => examine({ SMTP_URL: smtp.url, EMBEDDED: 'on', ...others })
  const place = `^127\\.0\\.0\\.1:${smtp.port} answers`
  assertFinding(await look({ MAIL_FROM: 'shop@store.example' }), 'mail server', 'ok', new RegExp(`${place} without a login$`))
  assertFinding(await look(), 'mail server', 'warning', new RegExp(`${place}, and MAIL_FROM is not set`), /^set MAIL_FROM/)
  assert.deepEqual(smtp.mails, [])
})

test('a Varnish that is unavailable, is another server, refuses this machine, and lets it purge', { skip: varnishMissing }, async (t) => {
  const backend = createServer(({ method }, answer) => void answer.writeHead(method === 'PURGE' ? 404 : 200).end())
  await once(backend.listen(0, '127.0.0.1'), 'listening')
  onCleanup(t, () => void backend.close())
  const { port: backendPort } = backend.address() as AddressInfo
  const look = (host: string) => examine({ CDN_PURGE_URL: `varnish://${host}`, EMBEDDED: 'on' })
  const away = await look(`127.0.0.1:${await freePort()}`)
  assertFinding(away, 'cache', 'problem', /ECONNREFUSED$/, /^check that Varnish runs .* purges wait meanwhile$/)
  const other = await look(`127.0.0.1:${backendPort}`)
  assertFinding(other, 'cache', 'problem', /does not purge \(status 404\)$/, /default\.vcl$/)
  const strict = await startVarnish(t, backendPort, undefined, '192.0.2.1')
  const refused = await look(new URL(strict.url).host)
  assertFinding(
    refused,
    'cache',
    'problem',
    /refuses purges of this machine$/,
    /^add this machine's address to the purgers in addresses\.vcl$/,
  )
  const right = await startVarnish(t, backendPort)
  assertFinding(await look(new URL(right.url).host), 'cache', 'ok', /lets this machine purge$/)
  const several = await examine({ CDN_PURGE_URL: 'fastly://:hunter2@service', EMBEDDED: 'on' })
  assertFinding(several, 'cache', 'ok', /^fastly is not asked/)
  assert.ok(!JSON.stringify(several).includes('hunter2'))
})

test('a single NATS server is doubted up to 2.9, and not from 2.10 on', () => {
  for (const version of ['2.9.10', '2.9.25']) assert.match(doubtSingleServer(version)?.what ?? '', /a power failure loses/)
  for (const version of ['2.10.0', '2.12.1', '3.0.0']) assert.equal(doubtSingleServer(version), null)
})

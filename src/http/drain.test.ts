import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { drain } from './drain.ts'
import { createHttpServer } from './server.ts'

const CLIENTS = 64
/** The number of clients that connect one after another during a drain. */
const RECONNECTING = 3
const BETWEEN_MS = 5

/** Starts a server that answers `here`, and returns its port. */
async function startServer() {
  const authenticate = () => Promise.reject(new Error('unused'))
  const server = await createHttpServer({ logger: pino({ level: 'silent' }), baseUrl: 'http://localhost', authenticate })
  server.get('/', { config: { access: 'public', cost: 'memory' } }, async () => 'here')
  await server.listen({ host: '127.0.0.1', port: 0 })
  return { server, port: (server.server.address() as AddressInfo).port }
}

test('answers clients that connected before the drain but were not yet accepted', async () => {
  const { server, port } = await startServer()
  const send = () =>
    new Promise<string>((resolve) => {
      get({ port, host: '127.0.0.1', agent: false }, (response) => resolve(`${response.statusCode}`)).on('error', (error) =>
        resolve(error.message),
      )
    })
  const firstAccepted = new Promise((resolve) => server.server.once('connection', resolve))
  const answers = Array.from({ length: CLIENTS }, send)
  await firstAccepted
  await drain(server, 10_000)
  assert.deepEqual(await Promise.all(answers), Array(CLIENTS).fill('200'))
})

test('continues to listen while clients reconnect', async () => {
  const { server, port } = await startServer()
  const drained = drain(server, 10_000)
  const answers: Promise<string>[] = []
  for (let sent = 0; sent < RECONNECTING; sent++) {
    answers.push(fetch(`http://127.0.0.1:${port}/`).then((response) => response.text()))
    await delay(BETWEEN_MS)
  }
  assert.deepEqual(await Promise.all(answers), Array(RECONNECTING).fill('here'))
  await drained
})

test('a client that disconnects while the server stops listening ends only its own request', async (t) => {
  const { server, port } = await startServer()
  // The server never becomes quiet, so connections wait until it stops waiting for a quiet moment.
  let isBusy = true
  const work = () => {
    for (const endsAt = performance.now() + 1; performance.now() < endsAt; );
    if (isBusy) setImmediate(work)
  }
  work()
  t.after(() => {
    isBusy = false
  })
  const drained = drain(server, 10_000)
  const [broken, patient] = await Promise.all(
    [0, 1].map(async () => {
      const accepted = once(server.server, 'connection')
      const client = connect(port, '127.0.0.1')
      await accepted
      return client
    }),
  )
  patient?.write('GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
  broken?.on('error', () => {}).resetAndDestroy()
  assert.match(await text(patient as Socket), /^HTTP\/1.1 200 OK.*here$/s)
  await drained
})

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { type AddressInfo, connect, createServer as createNetServer, type Server } from 'node:net'
import { test } from 'node:test'
import { pino } from 'pino'
import { type Cleanup, onCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { drain } from './http/drain.ts'
import { limitConnections } from './http/limit-connections.ts'
import { LoadShedder } from './http/load-shedder.ts'
import { createHttpServer } from './http/server.ts'
import { firstAddressOf, listenAtIpv6 } from './loopback.ts'

async function hasIpv6(): Promise<boolean> {
  const probe = createNetServer().listen(0, '::1')
  return once(probe, 'listening').then(
    () => void probe.close() === undefined,
    () => false,
  )
}
const skip = (await hasIpv6()) ? false : 'this machine has no IPv6'

const BOTH = ['127.0.0.1', '::1']

async function startStore(t: Cleanup, onDropped = () => {}, maxConnections = 1_000, shedder = new LoadShedder()) {
  const server = await createHttpServer({
    shedder,
    ...{ logger: pino({ level: 'silent' }), baseUrl: 'http://localhost', authenticate: () => Promise.reject(new Error('unused')) },
  })
  const [begun, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  server.get('/slow', { config: { access: 'public', cost: 'memory' } }, async () => {
    begun.resolve()
    await finish.promise
    return 'slow'
  })
  server.get('/', { config: { access: 'public', cost: 'memory' } }, async ({ ip }) => ip)
  limitConnections(server, { maxConnections, onDropped })
  await server.listen({ host: firstAddressOf('localhost'), port: 0 })
  const second = await listenAtIpv6(server.server, { host: 'localhost', mayBeTaken: true })
  onCleanup(t, () => drain(server, 0, second))
  return { server, second, port: (server.server.address() as AddressInfo).port, begun, finish }
}

/** Requests a path. Returns the answer's status, body and `Connection`. */
async function ask(host: string, port: number, path = '/'): Promise<[number | undefined, string, string | undefined]> {
  const call = request({ host, port, path, agent: false }).end()
  const [response] = await once(call, 'response')
  const chunks = await response.setEncoding('utf8').toArray()
  return [response.statusCode, chunks.join(''), response.headers.connection]
}

test('a server for localhost answers at both loopback addresses', { skip }, async (t) => {
  const { port } = await startStore(t)
  for (const host of BOTH) assert.deepEqual((await ask(host, port)).slice(0, 2), [200, host])
})

test('the load shedder counts the connections of both addresses', { skip }, async (t) => {
  const shedder = new LoadShedder()
  const step = t.mock.method(shedder, 'step')
  const { port } = await startStore(t, undefined, undefined, shedder)
  const sockets = await Promise.all(
    [...BOTH, ...BOTH].map(async (host) => {
      const socket = connect({ host, port })
      await once(socket, 'connect')
      return socket
    }),
  )
  const counted = (count: number) =>
    eventually(
      async () => {
        // A request ends the rest of an idle shedder.
        await ask('127.0.0.1', port)
        return step.mock.calls.at(-1)?.arguments[1] === count
      },
      { what: `${count} connections` },
    )
  await counted(sockets.length)
  for (const socket of sockets) socket.destroy()
  await counted(0)
})

test('a drain answers the request that arrived at ::1, and nothing listens there afterwards', { skip }, async (t) => {
  const { server, second, port, begun, finish } = await startStore(t)
  const slow = ask('::1', port, '/slow')
  await begun.promise
  const drained = drain(server, 10_000, second)
  finish.resolve()
  assert.deepEqual((await slow).slice(0, 2), [200, 'slow'])
  await drained
  for (const host of BOTH) await assert.rejects(ask(host, port), { code: 'ECONNREFUSED' })
})

test('a drain ends the connections at ::1 that outlast its patience', { skip }, async (t) => {
  const { server, second, port, begun } = await startStore(t)
  const slow = assert.rejects(ask('::1', port, '/slow'))
  await begun.promise
  await drain(server, 1, second)
  await slow
})

test('the limit of connections counts those at both addresses', { skip }, async (t) => {
  const dropped = Promise.withResolvers<void>()
  const { port } = await startStore(t, dropped.resolve, 1)
  const first = connect(port, '127.0.0.1')
  await once(first, 'connect')
  const closed = once(first, 'close')
  assert.equal((await ask('::1', port))[0], 200)
  await Promise.all([closed, dropped.promise])
})

test('a port of ::1 that another process uses is an error, unless it may be taken', { skip }, async (t) => {
  const other: Server = createNetServer().listen(0, '::1')
  await once(other, 'listening')
  onCleanup(t, () => void other.close())
  const { port } = other.address() as AddressInfo
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  onCleanup(t, () => void server.close())
  await assert.rejects(listenAtIpv6(server, { host: 'localhost', mayBeTaken: false }), { code: 'EADDRINUSE', address: '::1' })
  assert.equal(await listenAtIpv6(server, { host: 'localhost', mayBeTaken: true }), null)
  assert.equal(await listenAtIpv6(server, { host: '127.0.0.1', mayBeTaken: false }), null)
})

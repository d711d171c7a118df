import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { Type } from 'typebox'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { Admission } from './admission.ts'
import { createHttpServer } from './server.ts'

const LINES = 1_000
const valid = { lines: Array(LINES).fill('a line') }
const refused = { lines: Array(LINES).fill(1_234_567) }
const BODY = Type.Object({ lines: Type.Array(Type.String(), { maxItems: LINES }) }, { additionalProperties: false })

/** A server that takes the caller from a header, and the names it has answered, in order. */
async function start(t: TestContext) {
  const answered: string[] = []
  const server = await createHttpServer({
    logger: pino({ level: 'silent' }),
    baseUrl: 'http://localhost',
    authenticate: async ({ headers }) => ({ kind: 'account', userId: `${headers['x-who']}`, sessionId: '', role: 'customer' }),
    admission: new Admission({ connections: 6, isByNetwork: false }),
  })
  const config = { access: 'caller', cost: 'order' } as const
  server.addHook('onSend', async ({ headers }, reply) => void answered.push(`${headers['x-who']} ${reply.statusCode}`))
  server.post('/lines', { config, bodyLimit: 262_144, schema: { body: BODY } }, async () => 'valid')
  server.get('/small', { config }, async () => 'here')
  await server.ready()
  onCleanup(t, () => server.close())
  const send = (who: string, body: object) =>
    server.inject({ method: 'POST', url: '/lines', headers: { 'x-who': who, 'content-type': 'application/json' }, payload: body })
  return { server, answered, send }
}

test("forty large refused bodies delay another account's body by one of them, and delay no small request", async (t) => {
  const { server, answered, send } = await start(t)
  const greedy = Array.from({ length: 40 }, () => send('greedy', refused))
  const others = [send('shopper', valid), server.inject({ method: 'GET', url: '/small', headers: { 'x-who': 'reader' } })]
  await Promise.all([...greedy, ...others])
  const places = ['shopper 200', 'reader 200'].map((name) => answered.indexOf(name))
  assert.equal(answered.filter((name) => name === 'greedy 422').length, 40)
  const [shopper = 99, reader = 99] = places
  assert.ok(shopper >= 0 && shopper <= 3, answered.join())
  assert.ok(reader >= 0 && reader <= 3, answered.join())
})

test('a turn ends after a body that is not JSON or is refused, and after its client has disconnected', async (t) => {
  const { server, answered, send } = await start(t)
  await server.listen({ host: '127.0.0.1', port: 0 })
  const { port } = server.server.address() as AddressInfo
  const broken = '{'.repeat(10_000)
  const head = (who: string, length: number) =>
    `POST /lines HTTP/1.1\r\nhost: localhost\r\nx-who: ${who}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`
  for (const body of [broken, JSON.stringify(refused)]) {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(head('gone', body.length) + body, () => socket.destroy())
    await once(socket, 'close')
  }
  assert.deepEqual([(await send('a', refused)).statusCode, (await send('a', valid)).statusCode], [422, 200])
  assert.deepEqual(answered.slice(-2), ['a 422', 'a 200'])
})

test('bodies that arrive slowly hold no turn', async (t) => {
  const { server, send } = await start(t)
  await server.listen({ host: '127.0.0.1', port: 0 })
  const { port } = server.server.address() as AddressInfo
  const body = JSON.stringify(valid)
  let begun = 0
  server.server.on('request', () => begun++)
  const slow = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const socket = connect(port, '127.0.0.1')
      onCleanup(t, () => void socket.destroy())
      await once(socket, 'connect')
      const head = 'POST /lines HTTP/1.1\r\nhost: localhost\r\nx-who: slow\r\ncontent-type: application/json\r\n'
      socket.write(`${head}content-length: ${body.length}\r\n\r\n${body.slice(0, -1)}`)
      return socket
    }),
  )
  await eventually(async () => begun === 40)
  assert.equal((await send('slow', valid)).statusCode, 200)
  const answers = slow.map((socket) => once(socket, 'data'))
  for (const socket of slow) socket.write(body.slice(-1))
  for (const [bytes] of await Promise.all(answers)) assert.match(String(bytes), /^HTTP\/1\.1 200 /)
})

test('the query for recent authentication takes a place: forty calls of one account leave places for others', async (t) => {
  const held = Promise.withResolvers<void>()
  const asking: string[] = []
  const server = await createHttpServer({
    logger: pino({ level: 'silent' }),
    baseUrl: 'http://localhost',
    authenticate: async ({ headers }) => ({ kind: 'account', userId: `${headers['x-who']}`, sessionId: '', role: 'customer' }),
    sessionGuard: {
      assertMayUseScopes: async () => {},
      assertFreshProof: async ({ userId }) => {
        asking.push(userId)
        if (userId === 'greedy') await held.promise
      },
    },
    admission: new Admission({ connections: 6, isByNetwork: false }),
  })
  server.delete('/own', { config: { access: 'caller', cost: 'change', stepUp: 'always' } }, async () => 'gone')
  await server.ready()
  onCleanup(t, () => server.close())
  const call = (who: string) => server.inject({ method: 'DELETE', url: '/own', headers: { 'x-who': who } })
  const greedy = Array.from({ length: 40 }, () => call('greedy'))
  await eventually(async () => asking.length > 0)
  assert.equal((await call('shopper')).statusCode, 200)
  assert.deepEqual(asking.toSorted(), ['greedy', 'shopper'])
  held.resolve()
  for (const answer of await Promise.all(greedy)) assert.equal(answer.statusCode, 200)
})

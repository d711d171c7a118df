import assert from 'node:assert/strict'
import { get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { pino } from 'pino'
import { drain } from './drain.ts'
import { createHttpServer } from './server.ts'

const CLIENTS = 64

test('answers clients that connected before the drain but were not yet accepted', async () => {
  const authenticate = () => Promise.reject(new Error('unused'))
  const server = await createHttpServer({ logger: pino({ level: 'silent' }), baseUrl: 'http://localhost', authenticate })
  server.get('/', { config: { access: 'public', cost: 'memory' } }, async () => 'here')
  await server.listen({ host: '127.0.0.1', port: 0 })
  const { port } = server.server.address() as AddressInfo
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

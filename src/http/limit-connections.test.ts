import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { limitConnections } from './limit-connections.ts'
import { createHttpServer } from './server.ts'

test('closes the new connection instead of one whose request is being answered', async () => {
  const authenticate = () => Promise.reject(new Error('unused'))
  const server = await createHttpServer({ logger: pino({ level: 'silent' }), baseUrl: 'http://localhost', authenticate })
  const [begun, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  server.get('/slow', { config: { access: 'public', cost: 'memory' } }, async () => {
    begun.resolve()
    await finish.promise
    return 'slow'
  })
  let dropped = 0
  limitConnections(server, { maxConnections: 1, onDropped: () => dropped++ })
  await server.listen({ host: '127.0.0.1', port: 0 })
  after(() => server.close())
  const url = `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`
  const slow = fetch(`${url}/slow`)
  await begun.promise
  await assert.rejects(fetch(`${url}/slow`))
  assert.equal(dropped, 1)
  finish.resolve()
  assert.equal(await (await slow).text(), 'slow')
})

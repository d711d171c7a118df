import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { freePort, freePorts } from './free-port.ts'

test('ports can be listened on, none is told twice, and one that is taken is passed over', async (t) => {
  const servers = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const port = await freePort()
      const server = createServer().listen(port, '127.0.0.1')
      t.after(() => server.close())
      await once(server, 'listening')
      return port
    }),
  )
  const more = await Promise.all(Array.from({ length: 20 }, freePort))
  assert.equal(new Set([...servers, ...more]).size, 40)
  const row = await freePorts(3)
  assert.deepEqual(
    row,
    [0, 1, 2].map((index) => (row[0] ?? 0) + index),
  )
  assert.ok(more.every((port) => port >= 20_000 && port < 32_768))
})

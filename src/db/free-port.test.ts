import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { freePort } from './free-port.ts'

test('a port is free, is not told twice, and one that is taken is passed over', async (t) => {
  const first = await freePort()
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(first + 1, '127.0.0.1', resolve))
  t.after(() => server.close())
  const more = await Promise.all(Array.from({ length: 20 }, () => freePort()))
  assert.ok(!more.includes(first + 1))
  assert.equal(new Set([first, ...more]).size, 21)
  assert.ok(more.every((port) => port >= 20_000 && port < 32_768))
})

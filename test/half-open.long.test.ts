import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { startStore } from './store.ts'

const HALF_OPEN = 500

test('ends connections with half a header in time, answers others meanwhile, and closes those above the limit at once', async (t) => {
  const store = await startStore(t, { maxConnections: HALF_OPEN + 1 })
  const { port } = store.server.server.address() as AddressInfo
  const open = async (text: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(text)
    return socket.resume()
  }
  const sockets = await Promise.all(Array.from({ length: HALF_OPEN }, () => open('GET /products HTTP/1.1\r\nhost: loc')))
  await eventually(async () => (await connections()) === HALF_OPEN)
  const idle = await open('')
  await eventually(async () => (await connections()) === HALF_OPEN + 1)
  const dropped = await open('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n')
  await eventually(async () => dropped.destroyed, { what: 'the end of a connection above the limit' })
  idle.destroy()
  await eventually(async () => (await connections()) === HALF_OPEN)
  assert.equal((await fetch(`http://127.0.0.1:${port}/products?limit=1`, { headers: { connection: 'close' } })).status, 200)
  await eventually(async () => sockets.every(({ destroyed }) => destroyed), { what: 'the end of half-open connections', timeoutMs: 60_000 })

  function connections(): Promise<number> {
    return new Promise((resolve) => store.server.server.getConnections((_error, count) => resolve(count)))
  }
})

test('closes connections without a request when there is no place for others', async (t) => {
  const places = 5
  const store = await startStore(t, { maxConnections: places })
  const { port } = store.server.server.address() as AddressInfo
  const idle = await Promise.all(
    Array.from({ length: places }, async () => {
      const socket = connect(port, '127.0.0.1')
      await once(socket, 'connect')
      socket.write('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n')
      await once(socket, 'data')
      return socket.resume()
    }),
  )
  const isAnswered = async () => (await fetch(`http://127.0.0.1:${port}/livez`).catch(() => null))?.status === 200
  await eventually(isAnswered, { what: 'an answer although idle connections had all the places' })
  assert.ok(idle.every(({ destroyed, readableEnded }) => destroyed || readableEnded))
})

import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { type Cleanup, onCleanup } from './cleanup.ts'

/** A server that accepts connections and never answers. Returns its port. */
export async function startHangingServer(t: Cleanup): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    socket.on('error', () => {})
    sockets.add(socket)
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  onCleanup(t, () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  return address.port
}

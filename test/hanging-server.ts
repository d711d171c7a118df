import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type Cleanup, onCleanup } from './cleanup.ts'

/** A server that accepts connections and never answers. Returns its port. */
export async function startHangingServer(t: Cleanup, port = 0): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => void sockets.add(socket.on('error', () => {}))).listen(port, '127.0.0.1')
  await once(server, 'listening')
  onCleanup(t, () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}

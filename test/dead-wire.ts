import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type Cleanup, onCleanup } from './cleanup.ts'

/**
 * A proxy to the server at an address. It can stop forwarding: connections stay open and new ones are accepted, but
 * no byte passes, as when a machine or a network fails silently. It can also refuse connections, as when the server
 * has ended.
 */
export async function openDeadWire(t: Cleanup, url: string) {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  const clients = new Set<Socket>()
  const dead = new WeakSet<Socket>()
  let isDead = false
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    clients.add(client)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      if (isDead) dead.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        clients.delete(client)
        if (!dead.has(socket)) for (const other of [client, upstream]) other.destroy()
      })
    }
    client.on('data', (bytes) => void (dead.has(client) || upstream.write(bytes)))
    upstream.on('data', (bytes) => void (dead.has(client) || client.write(bytes)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onCleanup(t, () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href,
    /** Silences all connections until `recover`. */
    die() {
      isDead = true
      for (const socket of sockets) dead.add(socket)
    },
    /** For new connections; the others stay dead. */
    recover() {
      isDead = false
    },
    /** Ends every connection and forwards new ones, as after a restart of the server. */
    async restart() {
      isDead = false
      await this.refuse()
      await this.listen()
    },
    /** Ends every connection and refuses new ones, until `listen`. */
    async refuse() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
    async listen() {
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
    },
    /** Connections that a client holds open. */
    open: () => clients.size,
  }
}

// A process that keeps connections open on which it has sent half a header, and opens another for each that the server
// closes.
import { connect } from 'node:net'

export interface HalfOpen {
  port: number
  connections: number
}

process.on('message', async ({ port, connections }: HalfOpen) => {
  const open = (onConnected: () => void) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.on('connect', () => {
      socket.write('GET /products HTTP/1.1\r\nhost: loc')
      onConnected()
    })
    // The pause avoids endless attempts at a server that accepts no more connections.
    socket.on('close', () => setTimeout(open, 100, () => {}))
  }
  for (let opened = 0; opened < connections; opened++) await new Promise<void>(open)
  process.send?.(connections)
})

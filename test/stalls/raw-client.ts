import { connect } from 'node:net'
import { parentPort } from 'node:worker_threads'

/** A request as bytes, to a port of this machine. */
export interface RawRequest {
  port: number
  bytes: Uint8Array
}

/** The status of the answer; 0 when the connection ended without one. */
export type RawAnswer = number

// A separate thread: its work is not that of the thread whose stalls are measured.
parentPort?.on('message', ({ port, bytes }: RawRequest) => {
  const socket = connect(port, '127.0.0.1')
  let head = ''
  socket.on('data', (chunk) => {
    if (head.length < 12) head += chunk.toString('latin1')
  })
  // The server may refuse and close while the request is still being written.
  socket.on('error', () => {})
  socket.on('close', () => parentPort?.postMessage(Number(head.slice(9, 12)) satisfies RawAnswer))
  socket.write(bytes)
})

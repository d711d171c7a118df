import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { TestStore } from './store.ts'

export interface RawAnswer {
  status: number
  headers: Record<string, string>
  text: string
}

export async function openSocket(store: Pick<TestStore, 'server'>): Promise<Socket> {
  const { port } = store.server.server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  // The server may close while the client still writes.
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Sends bytes over a connection of its own, and returns all that comes back before the server closes it. */
export async function exchange(store: Pick<TestStore, 'server'>, bytes: string | Buffer): Promise<string> {
  const socket = await openSocket(store)
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
  })
  // `once` would fail when the server resets the connection.
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.write(bytes)
  await closed
  return text
}

/** Like `exchange`, for a single answer. */
export async function sendRaw(store: Pick<TestStore, 'server'>, bytes: string | Buffer): Promise<RawAnswer> {
  const [head = '', body = ''] = (await exchange(store, bytes)).split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = Object.fromEntries(lines.map((line) => line.split(/: ?(.*)/, 2).map((part, i) => (i === 0 ? part.toLowerCase() : part))))
  return { status: Number(first.split(' ')[1]), headers, text: body }
}

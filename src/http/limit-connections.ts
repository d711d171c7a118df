import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { HttpServer } from './http-server.ts'

/** Browsers and proxies do not pipeline. The few programs that do wait for some answers in between. */
const MAX_UNANSWERED = 64

export interface ConnectionLimits {
  maxConnections?: number
  onDropped?: () => void
}

interface Connection {
  unanswered: number
  latest: IncomingMessage | null
}

/** Closes the connection that waits longest for its client, or the new one. See docs/decisions/http-bounds.md. */
export function limitConnections(
  { server }: HttpServer,
  { maxConnections = Number.POSITIVE_INFINITY, onDropped = () => {} }: ConnectionLimits,
): void {
  const connections = new Map<Socket, Connection>()
  /** Sockets in the order in which their wait began. The next search removes those whose request is complete. */
  const waiting = new Set<Socket>()

  const forget = (socket: Socket) => {
    connections.delete(socket)
    waiting.delete(socket)
  }
  const dropOne = () => {
    for (const socket of waiting) {
      if (isBeingAnswered(connections.get(socket))) waiting.delete(socket)
      else {
        forget(socket)
        socket.destroy()
        return onDropped()
      }
    }
  }
  server.on('connection', (socket: Socket) => {
    connections.set(socket, { unanswered: 0, latest: null })
    waiting.add(socket)
    socket.once('close', () => forget(socket))
    if (connections.size > maxConnections) dropOne()
  })

  const listeners = server.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[]
  server.removeAllListeners('request')
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    const connection = connections.get(socket)
    if (connection === undefined || socket.destroyed) return
    connection.unanswered += 1
    if (connection.unanswered > MAX_UNANSWERED) {
      socket.destroy()
      return
    }
    connection.latest = request
    response.once('close', () => {
      connection.unanswered -= 1
      if (!connections.has(socket)) return
      waiting.delete(socket)
      waiting.add(socket)
    })
    for (const listener of listeners) listener(request, response)
  })
}

/** The store has all of a request, so the client waits for it. */
function isBeingAnswered({ unanswered, latest }: Connection = { unanswered: 0, latest: null }): boolean {
  return unanswered > 1 || (unanswered === 1 && latest?.complete === true)
}

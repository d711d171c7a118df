import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Browsers and proxies do not pipeline; the few programs that do wait for some answers in between. */
const MAX_UNANSWERED = 64

/**
 * Whether too many requests before this one on its connection are unanswered, or their answers unread; such a connection is ended. Node.js
 * parses everything it received before any other request, and keeps every answer until the client reads it.
 */
export function createPipeliningLimit(): (request: IncomingMessage, response: ServerResponse) => boolean {
  const unanswered = new WeakMap<Socket, number>()
  return ({ socket }, response) => {
    if (socket.destroyed) return true
    const count = (unanswered.get(socket) ?? 0) + 1
    if (count > MAX_UNANSWERED) {
      socket.destroy()
      return true
    }
    unanswered.set(socket, count)
    response.once('close', () => unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1))
    return false
  }
}

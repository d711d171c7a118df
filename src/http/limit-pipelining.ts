import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Browsers and proxies send one request after the other; the few programs that pipeline wait for some answers in between. */
const MAX_UNANSWERED = 64

/**
 * Whether a request has too many before it on its connection that are not answered yet, or not read by the client: then the connection is
 * ended. Node.js parses all that came in one piece before anybody else gets a turn, and keeps every answer until the client reads it.
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

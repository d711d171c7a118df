import { Server } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { HttpServer } from './http-server.ts'

/** A client that has not used its connection for so long after the drain began has no request on its way. */
const LINGER_MS = 1_000

/** Turns of the event loop in which waiting connections are taken before the server stops listening: one turn takes one. */
const MAX_ACCEPT_TURNS = 1_024

/**
 * Takes the connections that the kernel has already confirmed to their clients: a socket that closes resets them, with the requests on
 * them. Returns after a turn of the event loop that brought none.
 */
async function acceptWaiting(http: Server): Promise<void> {
  let accepted = 0
  const count = () => {
    accepted += 1
  }
  http.on('connection', count)
  for (let turn = 0, before = -1; turn < MAX_ACCEPT_TURNS && accepted > before; turn++) {
    before = accepted
    await nextTurn()
    await nextTurn()
  }
  http.off('connection', count)
}

/**
 * Ends a server without cutting a request. It takes no new connections, and every answer on an open one says `connection: close`: a client
 * that sends its next request on it in this moment gets an answer and then knows. What is open after `patienceMs` is cut.
 */
export async function drain(server: HttpServer, patienceMs: number): Promise<void> {
  const http = server.server
  if (http.listening) {
    await acceptWaiting(http)
    http.prependListener('request', (_request, response) => response.setHeader('connection', 'close'))
    // Not the server's own `close`, which cuts idle connections at once, with the requests that are on their way on them.
    const closed = promisify(Server.prototype.close).call(http)
    // Again and again: a connection may become idle only when a long request ends.
    const linger = setInterval(() => http.closeIdleConnections(), LINGER_MS)
    const impatience = setTimeout(() => http.closeAllConnections(), patienceMs)
    await closed
    clearInterval(linger)
    clearTimeout(impatience)
  }
  await server.close()
}

import { Server } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { HttpServer } from './http-server.ts'

/** A connection that is idle for this long after the drain began has no request on its way. */
const LINGER_MS = 1_000

/** Bound of the event loop turns in which waiting connections are accepted, one in each, before the server stops listening. */
const MAX_ACCEPT_TURNS = 1_024

/** Accepts the connections that the kernel has already confirmed: closing the listening socket would reset them and their requests. */
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
 * Stops a server without cutting a request. It accepts no new connections, and every answer on an open one has `connection: close`, so
 * that a client's next request there is still answered. Connections that are open after `patienceMs` are cut. `second` is a listener that
 * gives its connections to the server.
 */
export async function drain(server: HttpServer, patienceMs: number, second: Server | null = null): Promise<void> {
  const http = server.server
  if (http.listening) {
    await acceptWaiting(http)
    http.prependListener('request', (_request, response) => response.setHeader('connection', 'close'))
    // Not the server's own `close`, which cuts idle connections at once, and requests on their way with them.
    const closed = Promise.all([http, second].map((each) => each && promisify(Server.prototype.close).call(each)))
    // Repeated: a connection becomes idle when a long request ends.
    const linger = setInterval(() => http.closeIdleConnections(), LINGER_MS)
    const impatience = setTimeout(() => http.closeAllConnections(), patienceMs)
    await closed
    clearInterval(linger)
    clearTimeout(impatience)
  }
  await server.close()
}

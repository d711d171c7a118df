import { Server, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { every } from '../loop.ts'
import type { HttpServer } from './http-server.ts'

/** A connection that is idle for this long after the drain began has no request on its way. */
const LINGER_MS = 1_000

/** How long the server waits for a moment to stop listening. */
const MAX_ACCEPTING_MS = 500
/**
 * A turn of the event loop that took no longer has done nothing else: hardly a connection can have been confirmed since
 * it looked for some.
 */
const QUIET_TURN_MS = 0.2

/**
 * Stops listening in an idle turn of the event loop without new connections: the kernel resets connections that it has
 * confirmed and that were not accepted, with their requests. Those that come meanwhile are handled afterwards.
 */
async function stopListening(http: Server, second: Server | null): Promise<unknown> {
  const waiting: Socket[] = []
  const listeners = http.listeners('connection') as ((socket: Socket) => void)[]
  http.removeAllListeners('connection').on('connection', (socket: Socket) => {
    // A client that breaks off before its connection is handled must not end the process.
    waiting.push(socket.on('error', () => {}))
  })
  const endsAt = performance.now() + MAX_ACCEPTING_MS
  for (let isQuiet = false; !isQuiet && performance.now() < endsAt; ) {
    const [before, began] = [waiting.length, performance.now()]
    await nextTurn()
    await nextTurn()
    isQuiet = waiting.length === before && performance.now() - began < 2 * QUIET_TURN_MS
  }
  // The server's own `close` would cut idle connections at once, and requests on their way with them.
  const closed = [http, second].map((each) => each && promisify(Server.prototype.close).call(each))
  http.removeAllListeners('connection')
  for (const listener of listeners) http.on('connection', listener)
  for (const socket of waiting) if (!socket.destroyed) http.emit('connection', socket)
  return Promise.all(closed)
}

/**
 * Stops a server without cutting a request. It accepts no new connections, and every answer on an open one has `connection: close`, so
 * that a client's next request there is still answered. Connections that are open after `patienceMs` are cut. `second` is a listener that
 * gives its connections to the server.
 */
export async function drain(server: HttpServer, patienceMs: number, second: Server | null = null): Promise<void> {
  const http = server.server
  if (http.listening) {
    http.prependListener('request', (_request, response) => response.setHeader('connection', 'close'))
    const closed = stopListening(http, second)
    // Repeated: a connection becomes idle when a long request ends.
    const endLinger = every(LINGER_MS, () => http.closeIdleConnections())
    const impatience = setTimeout(() => http.closeAllConnections(), patienceMs)
    await closed
    endLinger()
    clearTimeout(impatience)
  }
  await server.close()
}

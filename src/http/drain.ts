import { Server, type Socket } from 'node:net'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { every } from '../loop.ts'
import type { HttpServer } from './http-server.ts'

/** A connection that is idle this long after the drain began has no request in flight. */
const LINGER_MS = 1_000

const MAX_ACCEPTING_MS = 1_000
/** Clients with an answer reconnect within this time, even on a busy machine. */
const QUIET_MS = 100
/** The longest wait for clients to stop connecting. */
const MAX_QUIET_MS = 500
const LOOK_MS = 5
/** A turn of the event loop this short did no other work, so hardly any connection was confirmed meanwhile. */
const QUIET_TURN_MS = 0.2

/**
 * The kernel resets confirmed connections that were not accepted, so the server stops listening in an idle turn when no
 * client has connected for a while.
 */
async function stopListening(http: Server, second: Server | null): Promise<unknown> {
  const waiting: Socket[] = []
  const listeners = http.listeners('connection') as ((socket: Socket) => void)[]
  const beganAt = performance.now()
  let quietFrom = beganAt + QUIET_MS
  http.removeAllListeners('connection').on('connection', (socket: Socket) => {
    // A client that disconnects before its connection is handled must not end the process.
    waiting.push(socket.on('error', () => {}))
    quietFrom = Math.min(performance.now() + QUIET_MS, beganAt + MAX_QUIET_MS)
  })
  for (let isQuiet = false; !isQuiet && performance.now() < beganAt + MAX_ACCEPTING_MS; ) {
    if (performance.now() < quietFrom) {
      await delay(LOOK_MS)
      continue
    }
    const turnedAt = performance.now()
    await nextTurn()
    await nextTurn()
    const now = performance.now()
    isQuiet = now > quietFrom && now - turnedAt < 2 * QUIET_TURN_MS
  }
  // The server's own `close` would cut idle connections at once, and requests in flight with them.
  const closed = [http, second].map((each) => each && promisify(Server.prototype.close).call(each))
  http.removeAllListeners('connection')
  for (const listener of listeners) http.on('connection', listener)
  for (const socket of waiting) if (!socket.destroyed) http.emit('connection', socket)
  return Promise.all(closed)
}

/**
 * Answers with `connection: close`, so a client's next request is still answered. `second` also listens for `server`.
 */
export async function drain(server: HttpServer, patienceMs: number, second: Server | null = null): Promise<void> {
  const http = server.server
  if (http.listening) {
    http.prependListener('request', (_request, response) => response.setHeader('connection', 'close'))
    const closed = stopListening(http, second)
    const endLinger = every(LINGER_MS, () => http.closeIdleConnections())
    const impatience = setTimeout(() => http.closeAllConnections(), patienceMs)
    await closed
    endLinger()
    clearTimeout(impatience)
  }
  await server.close()
}

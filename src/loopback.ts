import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'

/** This name means both loopback addresses, whatever the machine's resolver returns. */
const BOTH = 'localhost'

/** The address or name at which a server for `host` listens first. */
export function firstAddressOf(host: string): string {
  return host === BOTH ? '127.0.0.1' : host
}

/** The errors of a machine without IPv6, or with IPv6 switched off. */
const NO_IPV6 = ['EADDRNOTAVAIL', 'EAFNOSUPPORT']

export interface LoopbackOptions {
  host: string
  reusePort?: boolean
  /** Whether another process may have the port at `::1`, for example because the kernel chose the port for `server`. */
  mayBeTaken: boolean
}

/**
 * Listens at `[::1]` too. `server` gets its connections, so the limits and drains of `server` count them. Returns null
 * if there is no second listener.
 */
export async function listenAtIpv6(server: Server, { host, reusePort = false, mayBeTaken }: LoopbackOptions): Promise<Server | null> {
  if (host !== BOTH) return null
  const { port } = server.address() as AddressInfo
  const second = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket))
  try {
    await once(second.listen({ host: '::1', port, reusePort }), 'listening')
    return second
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (NO_IPV6.includes(code) || (mayBeTaken && code === 'EADDRINUSE')) return null
    throw error
  }
}

import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'

/** This name stands for both loopback addresses, whatever the resolver of the machine says. */
const BOTH = 'localhost'

/** The IPv4 or IPv6 address, or the name, at which a server for `host` listens first. */
export function firstAddressOf(host: string): string {
  return host === BOTH ? '127.0.0.1' : host
}

/** What a machine without IPv6, or with IPv6 switched off, answers. */
const NO_IPV6 = ['EADDRNOTAVAIL', 'EAFNOSUPPORT']

export interface LoopbackOptions {
  host: string
  reusePort?: boolean
  /** Whether the port of `::1` may belong to another process, such as when the kernel has chosen it for `server`. */
  mayBeTaken: boolean
}

/**
 * For the host `localhost`, a second listener at `[::1]` with the port of `server`, which gets its connections, so that limits and drains
 * count them. Null for other hosts and on machines without IPv6.
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

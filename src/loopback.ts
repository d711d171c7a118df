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
  /** The port of `::1` may belong to another process, for example when the kernel has chosen it for `server`. */
  mayBeTaken: boolean
}

/** `server` gets the connections of `[::1]`, so its limits and drains count them. Null when there is no listener. */
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

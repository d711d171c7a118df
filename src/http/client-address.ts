import { isIP, isIPv4 } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** The client's IP address: the connection's, or the one that a proxy named by TRUST_PROXY reports. IPv4 is never in IPv6 form. */
export function clientAddress(request: Pick<FastifyRequest, 'ip' | 'socket'>): string {
  const address = plain(request.ip)
  // A trusted proxy may still forward an invalid address.
  return isIP(address) === 0 ? plain(request.socket.remoteAddress ?? '') : address
}

function plain(address: string): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1]
  return mapped !== undefined && isIPv4(mapped) ? mapped : address
}

/** The network of one subscriber line: an IPv4 address, or the /64 of an IPv6 address, whose other bits the subscriber chooses. */
export function networkOf(address: string): string {
  return isIP(address) === 6 ? prefixOf(address, 4) : address
}

/** The /48 of an IPv6 address: one site has it, with 65,536 networks of the size above. Null for IPv4. */
export function siteOf(address: string): string | null {
  return isIP(address) === 6 ? prefixOf(address, 3) : null
}

/** The first `groups` of the eight 16-bit groups of an IPv6 address. */
function prefixOf(address: string, groups: number): string {
  // The URL parser normalises an address (RFC 5952). A zone id has a meaning on this machine only.
  const [head = '', tail = ''] = new URL(`http://[${address.split('%', 1)[0]}]`).hostname.slice(1, -1).split('::')
  const [left, right] = [head, tail].map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array<string>(8 - (left?.length ?? 0) - (right?.length ?? 0)).fill('0')
  return `${[...(left ?? []), ...zeros, ...(right ?? [])].slice(0, groups).join(':')}::/${groups * 16}`
}

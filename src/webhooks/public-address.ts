import dns from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'

/** The address is not public, so webhooks must not connect to it. */
export class PrivateAddress extends Error {
  override readonly name = 'PrivateAddress'
}

// From the IANA special-purpose registries, https://www.iana.org/assignments/iana-ipv4-special-registry and …ipv6….
const SPECIAL_V4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24', '192.0.2.0/24'],
  ...['192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
]
// In IPv6, only the global unicast range is public. Exceptions within it are tunnels to IPv4, documentation and
// protocol assignments.
const GLOBAL_V6 = '2000::/3'
const SPECIAL_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

const specialV4 = blockList(SPECIAL_V4, 'ipv4')
const specialV6 = blockList(SPECIAL_V6, 'ipv6')
const globalV6 = blockList([GLOBAL_V6], 'ipv6')

function blockList(networks: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix = ''] = network.split('/')
    list.addSubnet(address, Number(prefix), family)
  }
  return list
}

/**
 * Whether an IP address belongs to the public internet. Excludes loopback, private, link-local (the metadata of
 * clouds), unique local, shared, multicast and reserved addresses, and those mapped or tunnelled to IPv4.
 */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !specialV4.check(address, 'ipv4')
    case 6:
      return !address.includes('%') && globalV6.check(address, 'ipv6') && !specialV6.check(address, 'ipv6')
    default:
      return false
  }
}

/**
 * A lookup function for sockets that resolves a name only to its public addresses. The socket connects to a checked
 * address, so DNS rebinding has no effect. Fails with PrivateAddress if the name has no public address.
 */
export const publicLookup: LookupFunction = (host, options, callback) => {
  dns.lookup(host, { ...options, all: true }, (error, found) => {
    if (error !== null) return callback(error, [])
    const addresses = found.filter(({ address }) => isPublicAddress(address))
    const [first] = addresses
    if (first === undefined) return callback(new PrivateAddress(`${host} has no public address`), [])
    if (options.all === true) return callback(null, addresses)
    return callback(null, first.address, first.family)
  })
}

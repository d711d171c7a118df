import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv4 } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyInstance {
    clientAddresses: ClientAddresses
  }
}

export type TrustedProxies = readonly string[] | number | false

export interface ProxyReports {
  /** Called for each request that an untrusted peer forwards. All clients of this peer count as one. */
  onUntrusted: (peer: string) => void
  onUnreadable: (header: ForwardedHeader, address: string) => void
  /** A trusted proxy names the client in an unread header, so its clients count as one. Called per request. */
  onUnread: (header: string) => void
}

/** Finds a request's client behind the proxies of TRUST_PROXY. */
export class ClientAddresses {
  readonly #isTrusted: (address: string, hop: number) => boolean
  readonly #reports: ProxyReports

  constructor(proxies: TrustedProxies, reports: ProxyReports) {
    this.#isTrusted = trusted(proxies)
    this.#reports = reports
  }

  /** `hop` is 0 for the connection's peer. The form is that of Fastify's `trustProxy`. */
  isTrusted(address: string, hop: number): boolean {
    return this.#isTrusted(plain(address), hop)
  }

  watch({ headers, socket }: IncomingMessage): void {
    if (!FORWARDING_HEADERS.some((name) => headers[name] !== undefined)) return
    const peer = plain(socket.remoteAddress ?? '')
    if (!this.#isTrusted(peer, 0)) this.#reports.onUntrusted(peer)
  }

  /** The address that the outermost trusted proxy reports, or the connection's. Throws `malformed_request`. */
  find({ headers, socket }: IncomingMessage): string {
    let address = plain(socket.remoteAddress ?? '')
    if (!this.#isTrusted(address, 0)) return address
    const forwarded = forwardedAddresses(headers)
    if (forwarded === null) {
      if (headers['x-real-ip'] !== undefined) this.#reports.onUnread('x-real-ip')
      return address
    }
    const { header, addresses } = forwarded
    if (addresses.length === 0) throw this.#refuse(header, '')
    for (let hop = 0; hop < addresses.length && this.#isTrusted(address, hop); hop++) {
      const reported = addresses[addresses.length - 1 - hop] ?? ''
      const read = readAddress(reported)
      if (read === null) throw this.#refuse(header, reported)
      address = read
    }
    return address
  }

  #refuse(header: ForwardedHeader, address: string): AppError {
    this.#reports.onUnreadable(header, address)
    return new AppError('malformed_request', `The proxy in front of the store names no client address in ${header} that can be read.`)
  }
}

const FORWARDING_HEADERS = ['x-forwarded-for', 'forwarded', 'x-forwarded-proto', 'x-real-ip'] as const

function trusted(proxies: TrustedProxies): (address: string, hop: number) => boolean {
  if (typeof proxies === 'number') return (_address, hop) => hop < proxies
  const list = new BlockList()
  for (const network of proxies === false ? [] : proxies) {
    const [address = '', bits] = network.split('/')
    const family = isIPv4(plain(address)) ? 'ipv4' : 'ipv6'
    const isMapped = family === 'ipv4' && !isIPv4(address)
    if (bits === undefined) list.addAddress(plain(address), family)
    // A network of IPv4 in IPv6 form counts 96 bits more.
    else list.addSubnet(plain(address), Number(bits) - (isMapped ? Math.min(96, Number(bits)) : 0), family)
  }
  return (address) => isIP(address) !== 0 && list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')
}

/** The connection's address, or the one that a proxy of TRUST_PROXY reports. IPv4 is never in IPv6 form. */
export function clientAddress({ server, raw }: Pick<FastifyRequest, 'server' | 'raw'>): string {
  return server.clientAddresses.find(raw)
}

// A port can follow an IPv6 address without brackets only after all eight groups.
const WITH_PORT = /^(?:\[([^[\]]+)\]|([\d.]+)|((?:[\da-f]{1,4}:){7}[\da-f]{1,4}))(?::(?:\d{1,5}|_[\w.-]+))?$/i

/** Accepts the forms of proxies: quotes, brackets, a port, a zone id. Null for any other text. */
export function readAddress(text: string): string | null {
  const unquoted = text.replace(/^"(.*)"$/, '$1')
  const [, bracketed, v4, v6] = WITH_PORT.exec(unquoted) ?? []
  const address = plain((bracketed ?? v4 ?? v6 ?? unquoted).split('%', 1)[0] ?? '')
  return isIP(address) === 0 ? null : address
}

function plain(address: string): string {
  if (!/^[0:]+:ffff:/i.test(address) || isIP(address) !== 6) return address
  const [, high, low] = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/i.exec(new URL(`http://[${address}]`).hostname.slice(1, -1)) ?? []
  if (high === undefined || low === undefined) return address
  return [high, low].flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]).join('.')
}

/** The whole IPv4 address, or the /48 of an IPv6 address. A customer of a data centre can choose all other bits. */
export function siteOf(address: string): string {
  return isIP(address) === 6 ? prefixOf(address, 3) : address
}

/** An IPv4 address, or the /64 of one IPv6 subscriber. For limits that must not affect neighbours. */
export function networkOf(address: string): string {
  return isIP(address) === 6 ? prefixOf(address, 4) : address
}

function prefixOf(address: string, groups: number): string {
  // The URL parser normalises an address (RFC 5952). A zone id has a meaning on this machine only.
  const [head = '', tail = ''] = new URL(`http://[${address.split('%', 1)[0]}]`).hostname.slice(1, -1).split('::')
  const [left, right] = [head, tail].map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array<string>(8 - (left?.length ?? 0) - (right?.length ?? 0)).fill('0')
  return `${[...(left ?? []), ...zeros, ...(right ?? [])].slice(0, groups).join(':')}::/${groups * 16}`
}

type ForwardedHeader = 'X-Forwarded-For' | 'Forwarded'

interface ForwardedAddresses {
  header: ForwardedHeader
  addresses: string[]
}

/** A proxy that writes `X-Forwarded-For` passes on `Forwarded` as the client sent it, so the former comes first. */
function forwardedAddresses(headers: IncomingHttpHeaders): ForwardedAddresses | null {
  const list = headers['x-forwarded-for']
  if (list !== undefined) return { header: 'X-Forwarded-For', addresses: splitList([list].flat().join(',')) }
  const { forwarded } = headers
  return forwarded === undefined ? null : { header: 'Forwarded', addresses: readForwarded(forwarded) }
}

/** Omits empty elements (RFC 9110 §5.6.1). */
function splitList(list: string): string[] {
  return list.split(',').flatMap((element) => element.trim() || [])
}

// A pair of RFC 7239 §4. Some proxies omit the quotes that colons and brackets need.
const PAIR = /[ \t]*(?:([\w!#$%&'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[^\s",;]+))?[ \t]*([;,]|$)/

/** An empty text for an element without `for`, and for a header that does not follow the grammar. */
function readForwarded(header: string): string[] {
  const found: string[] = []
  const pairs = new RegExp(PAIR, 'y')
  let address: string | null = null
  for (;;) {
    const match = pairs.exec(header)
    if (match === null) return ['']
    const [, name, value = '', separator] = match
    if (name !== undefined) address = name.toLowerCase() === 'for' ? value : (address ?? '')
    if (separator === ';') continue
    if (address !== null) found.push(address)
    address = null
    if (separator === '') return found
  }
}

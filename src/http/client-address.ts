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
  /**
   * Called for each request in which a trusted proxy names the client only in a header that is not read. All clients of
   * this proxy count as one.
   */
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

  /** Whether a proxy is trusted, in the form of Fastify's `trustProxy`. `hop` is 0 for the connection's peer. */
  isTrusted(address: string, hop: number): boolean {
    return this.#isTrusted(plain(address), hop)
  }

  watch({ headers, socket }: IncomingMessage): void {
    if (!FORWARDING_HEADERS.some((name) => headers[name] !== undefined)) return
    const peer = plain(socket.remoteAddress ?? '')
    if (!this.#isTrusted(peer, 0)) this.#reports.onUntrusted(peer)
  }

  /** The address that the outermost trusted proxy reports, otherwise the connection's. Throws `malformed_request`. */
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
    // The prefix of an IPv4 network written as IPv6 is 96 bits longer.
    else list.addSubnet(plain(address), Number(bits) - (isMapped ? Math.min(96, Number(bits)) : 0), family)
  }
  return (address) => isIP(address) !== 0 && list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')
}

/**
 * The address that a proxy of TRUST_PROXY reports, otherwise the connection's. IPv4 addresses are never in IPv6 form.
 */
export function clientAddress({ server, raw }: Pick<FastifyRequest, 'server' | 'raw'>): string {
  return server.clientAddresses.find(raw)
}

// A port can follow an IPv6 address without brackets only after all eight groups.
const WITH_PORT = /^(?:\[([^[\]]+)\]|([\d.]+)|((?:[\da-f]{1,4}:){7}[\da-f]{1,4}))(?::(?:\d{1,5}|_[\w.-]+))?$/i

/**
 * Reads an address in the forms that proxies write: with quotes, brackets, a port or a zone id. Returns null for any
 * other text.
 */
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

/**
 * The whole IPv4 address, or the /64 of an IPv6 address, which is one subscriber. For limits that must not affect
 * neighbours.
 */
export function networkOf(address: string): string {
  return isIP(address) === 6 ? prefixOf(address, 4) : address
}

function prefixOf(address: string, groups: number): string {
  // The URL parser normalises an address (RFC 5952). The zone id is removed, because it has a meaning on this machine
  // only.
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

/**
 * The addresses of the forwarding headers. `X-Forwarded-For` has precedence, because a proxy that writes it passes on
 * `Forwarded` as the client sent it.
 */
function forwardedAddresses(headers: IncomingHttpHeaders): ForwardedAddresses | null {
  const list = headers['x-forwarded-for']
  if (list !== undefined) return { header: 'X-Forwarded-For', addresses: splitList([list].flat().join(',')) }
  const { forwarded } = headers
  return forwarded === undefined ? null : { header: 'Forwarded', addresses: readForwarded(forwarded) }
}

/** Splits a list without its empty elements (RFC 9110 §5.6.1). */
function splitList(list: string): string[] {
  return list.split(',').flatMap((element) => element.trim() || [])
}

// A pair of RFC 7239 §4. Some proxies omit the quotes that colons and brackets need.
const PAIR = /[ \t]*(?:([\w!#$%&'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[^\s",;]+))?[ \t]*([;,]|$)/

/**
 * The `for` addresses. An element without `for` yields an empty text, and so does a header that violates the grammar.
 */
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

import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { AppError } from '../errors.ts'

const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%!$&'()*+,;=-]*)(?::\d*)?$/
// The scheme and authority of an absolute-form target (RFC 9112 §3.2.2), up to the path.
const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)/i

export interface OwnHosts {
  baseUrl: string
  allowedHosts: readonly string[]
}

/**
 * Whether a host is BASE_URL's, a loopback name, an address or an allowed name, with any port. This prevents DNS
 * rebinding.
 */
export function isOwnHost(host: string | undefined, { baseUrl, allowedHosts }: OwnHosts): boolean {
  if (host === undefined) return true
  const name = host.toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '')
  if (isIP(name) !== 0 || /^\[[0-9a-f:.]+\]$/.test(name)) return true
  return name === 'localhost' || name.endsWith('.localhost') || name === new URL(baseUrl).hostname || allowedHosts.includes(name)
}

export function findForeignHost({ headers: { host } }: Pick<IncomingMessage, 'headers'>, own: OwnHosts): AppError | null {
  if (isOwnHost(host, own)) return null
  return new AppError(
    'misdirected_request',
    `This part of the store answers at the host of BASE_URL, and not at another name. Use that address, let the proxy pass on Host, or name the host in ALLOWED_HOSTS.`,
  )
}

/** Counts a header's occurrences. Node.js keeps the first `host` and `authorization` and silently drops the others. */
export function countHeaders({ rawHeaders }: IncomingMessage, wanted: string): number {
  let count = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name?.length === wanted.length && name.toLowerCase() === wanted) count++
  }
  return count
}

/**
 * The refusal of a request that does not name exactly one host (RFC 9112 §3.2); null if it is valid. HTTP/1.0 requests
 * may name none.
 */
export function findHostFault(request: IncomingMessage): AppError | null {
  const count = countHeaders(request, 'host')
  if (count === 0 && request.httpVersion === '1.0') return null
  const { host = '' } = request.headers
  if (count !== 1 || !HOST.test(host)) return new AppError('malformed_request', 'The request must name one host.')
  const [, authority] = ABSOLUTE_FORM.exec(originalTarget(request)) ?? []
  if (authority === undefined || authority.toLowerCase() === host.toLowerCase()) return null
  return new AppError('malformed_request', 'The host of the target is not the one that Host names.')
}

export function toOriginForm(target: string): string {
  if (target.startsWith('/')) return target
  const rest = target.replace(ABSOLUTE_FORM, '')
  return rest === target || rest.startsWith('/') ? rest : `/${rest}`
}

/** The target that the client sent. Fastify stores it before it rewrites the address. */
function originalTarget(request: IncomingMessage & { originalUrl?: string }): string {
  return request.originalUrl ?? request.url ?? ''
}

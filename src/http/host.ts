import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { AppError } from '../errors.ts'

const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%!$&'()*+,;=-]*)(?::\d*)?$/
// Scheme and authority, up to the path (RFC 9112 §3.2.2).
const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)/i

export interface OwnHosts {
  baseUrl: string
  allowedHosts: readonly string[]
}

/** BASE_URL's host, a loopback name, an address or an allowed name, against DNS rebinding. Any port. */
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

/** Node.js keeps the first `host` and `authorization` and silently drops the others. */
export function countHeaders({ rawHeaders }: IncomingMessage, wanted: string): number {
  let count = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name?.length === wanted.length && name.toLowerCase() === wanted) count++
  }
  return count
}

/** A request names one host, except in HTTP/1.0 (RFC 9112 §3.2). */
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

/** The target that the client sent. Fastify replaces it by the rewritten one. */
function originalTarget(request: IncomingMessage & { originalUrl?: string }): string {
  return request.originalUrl ?? request.url ?? ''
}

import type { IncomingHttpHeaders } from 'node:http'

export type ForwardedHeader = 'X-Forwarded-For' | 'Forwarded'

export interface ForwardedAddresses {
  header: ForwardedHeader
  /** The addresses as written, the nearest proxy's report last. */
  addresses: string[]
}

/**
 * The clients that proxies report, null without a header. `X-Forwarded-For` counts where both are sent: a proxy that writes it passes
 * `Forwarded` on as the client sent it.
 */
export function forwardedAddresses(headers: IncomingHttpHeaders): ForwardedAddresses | null {
  const list = headers['x-forwarded-for']
  if (list !== undefined) return { header: 'X-Forwarded-For', addresses: splitList([list].flat().join(',')) }
  const { forwarded } = headers
  return forwarded === undefined ? null : { header: 'Forwarded', addresses: readForwarded(forwarded) }
}

/** RFC 9110 §5.6.1: empty elements do not count. */
function splitList(list: string): string[] {
  return list.split(',').flatMap((element) => element.trim() || [])
}

// RFC 7239 §4. Some proxies leave out the quotes that colons and brackets need.
const PAIR = /[ \t]*(?:([\w!#$%&'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[^\s",;]+))?[ \t]*([;,]|$)/

/** The `for` of each element; an empty text for an element without one, and for a header that does not follow the grammar. */
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

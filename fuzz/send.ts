import { type Answer, exchange } from './connection.ts'
import { type FuzzRequest, targetOf } from './request.ts'

export interface SendOptions {
  port: number
  /** The address that a proxy would report, for a store that trusts one. */
  from?: string
}

export function send(request: FuzzRequest, { port, from }: SendOptions): Promise<Answer> {
  const { method, account, authorization, headers, contentType, bodyText, bodyBytes } = request
  const token = authorization ?? (account === null ? null : `Bearer ${account.token}`)
  const body = bodyBytes ?? (bodyText === null ? null : Buffer.from(bodyText))
  const lines = [
    `${method} ${targetOf(request)} HTTP/1.1`,
    'host: 127.0.0.1',
    'connection: close',
    ...(token === null ? [] : [`authorization: ${token}`]),
    ...(contentType === null ? [] : [`content-type: ${contentType}`]),
    ...(body === null ? [] : [`content-length: ${body.length}`]),
    ...(from === undefined ? [] : [`x-forwarded-for: ${from}`]),
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ]
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  return exchange(port, body === null ? head : Buffer.concat([head, body]), method === 'HEAD')
}

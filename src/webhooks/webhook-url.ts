import { isIP } from 'node:net'
import { OperatorError } from '../errors.ts'
import { isPublicAddress, PrivateAddress, publicLookup } from './public-address.ts'

/** A webhook that cannot be set up as requested. The message is one line, and contains no secret. */
export class WebhookRefused extends OperatorError {
  override readonly name = 'WebhookRefused'
  override readonly exitStatus = 2
}

const MAX_LENGTH = 2_000

/** Checks the URL of an endpoint and returns its normal form. Throws WebhookRefused. */
export function readWebhookUrl(text: string, isPrivateAllowed: boolean): string {
  if (!URL.canParse(text)) throw new WebhookRefused('the URL cannot be read; it must look like https://shop.example/hooks')
  const url = new URL(text)
  if (url.protocol !== 'https:' && !(isPrivateAllowed && url.protocol === 'http:')) {
    const http = isPrivateAllowed ? ' or http://' : url.protocol === 'http:' ? ', or set WEBHOOK_ALLOW_PRIVATE=on' : ''
    throw new WebhookRefused(`the URL must start with https://${http}`)
  }
  // Lists and logs would show credentials. The signature proves the sender.
  if (url.username !== '' || url.password !== '') throw new WebhookRefused('the URL must contain no user name and no password')
  if (url.hash !== '') throw new WebhookRefused('the URL must contain no fragment')
  if (url.href.length > MAX_LENGTH) throw new WebhookRefused(`the URL is longer than ${MAX_LENGTH} characters`)
  if (!isPrivateAllowed && !mayBePublic(url))
    throw new WebhookRefused('the URL names a private address; set WEBHOOK_ALLOW_PRIVATE=on if that is intended')
  return url.href
}

/** Returns false for a non-public IP address. Names are checked later, each time a connection resolves them. */
export function mayBePublic(url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return isIP(host) === 0 || isPublicAddress(host)
}

const LOOKUP_MS = 1_000

/**
 * Throws WebhookRefused for a name that resolves only to private addresses. A name that is not resolved within a second
 * is accepted.
 */
export async function assertPublicName(url: string): Promise<void> {
  const { hostname } = new URL(url)
  const { promise, resolve } = Promise.withResolvers<Error | null>()
  const timer = setTimeout(() => resolve(null), LOOKUP_MS)
  publicLookup(hostname, { all: true }, resolve)
  const failure = await promise.finally(() => clearTimeout(timer))
  if (failure instanceof PrivateAddress)
    throw new WebhookRefused(`the URL's name leads to a private address; set WEBHOOK_ALLOW_PRIVATE=on if that is intended`)
}

/** The URL for terminals. It has no query, because a query may contain tokens. */
export function toPrintableUrl(text: string): string {
  const url = new URL(text)
  return `${url.origin}${url.pathname}${url.search === '' ? '' : '?…'}`
}

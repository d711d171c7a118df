import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply } from 'fastify'

export interface CacheLifetimes {
  browserSeconds: number
  /** Seconds in shared caches that are purged after a change, such as a CDN. */
  sharedSeconds: number
}

/** Varnish and Fastly use `Surrogate-Key`, Cloudflare `Cache-Tag`. */
export type TagHeader = 'surrogate-key' | 'cache-tag'

export function taggedFor(headers: readonly TagHeader[], tags: readonly string[]): string[] {
  return headers.flatMap((name) => [name, tags.join(name === 'cache-tag' ? ',' : ' ')])
}

/** A cache may serve an answer for this time after its lifetime. */
export const STALE_SECONDS = 86_400
const STALE = `stale-while-revalidate=60, stale-if-error=${STALE_SECONDS}`

export interface AnswerOptions {
  etag: string
  lastModified: Date
  tags: readonly string[]
  tagHeaders: readonly TagHeader[]
  /** RFC 8288. */
  link?: string | undefined
  /** The address of a 301 redirection. */
  location?: string | undefined
  language?: AnswerLanguage | null | undefined
  lifetimes: CacheLifetimes
}

export interface AnswerLanguage {
  tag: string
  isNegotiated: boolean
}

const SUFFIXES = { identity: '', gzip: '-gz', br: '-br' }
type Encoding = keyof typeof SUFFIXES

interface Variant {
  headers: readonly string[]
  headersOf304: readonly string[]
  bytes: Buffer
}

/** A smaller body saves too little for another entry in caches. */
const MIN_COMPRESSED_BYTES = 1_400
const BROTLI_QUALITY = 5

export class CacheableAnswer {
  readonly #status: 200 | 301
  readonly #etag: string
  readonly #common: readonly string[]
  readonly #variants = new Map<Encoding, Variant>()
  readonly #isCompressible: boolean

  constructor(body: string, options: AnswerOptions) {
    const { etag, lastModified, tags, tagHeaders, link, location, language = null, lifetimes } = options
    this.#status = location === undefined ? 200 : 301
    this.#etag = etag
    this.#common = [
      ...(location === undefined ? cacheHeaders(lifetimes, language) : redirectionHeaders(lifetimes, language)),
      ...['last-modified', lastModified.toUTCString()],
      ...taggedFor(tagHeaders, tags),
      ...(link === undefined ? [] : ['link', link]),
      ...(location === undefined ? [] : ['location', location]),
    ]
    const bytes = Buffer.from(body)
    this.#isCompressible = bytes.length >= MIN_COMPRESSED_BYTES
    this.#add('identity', bytes)
  }

  get sizeBytes(): number {
    return this.#identity.bytes.length + JSON.stringify(this.#common).length
  }

  get #identity(): Variant {
    return this.#variants.get('identity') as Variant
  }

  async prepare(asked: IncomingHttpHeaders): Promise<number> {
    const encoding = this.#choose(asked)
    if (this.#variants.has(encoding)) return 0
    const { bytes } = this.#identity
    const compressed = await (encoding === 'br'
      ? promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } })
      : promisify(gzip)(bytes))
    if (this.#variants.has(encoding)) return 0
    this.#add(encoding, compressed)
    return compressed.length
  }

  /** Sends the answer, or 304 if the client has it. Returns null, without sending, if `prepare` must run first. */
  send(asked: IncomingHttpHeaders, response: ServerResponse, headers: readonly string[]): 200 | 301 | 304 | null {
    const encoding = this.#choose(asked)
    const variant = this.#variants.get(encoding)
    if (variant === undefined) return null
    // Conditions do not apply to a redirection (RFC 9110 §13.2.1).
    const isUnchanged = this.#status === 200 && isKnown(asked['if-none-match'], this.#etag)
    const status = isUnchanged ? 304 : this.#status
    response.writeHead(status, (isUnchanged ? variant.headersOf304 : variant.headers).concat(headers))
    response.end(isUnchanged ? undefined : variant.bytes)
    return status
  }

  reply(asked: IncomingHttpHeaders, reply: FastifyReply): void {
    const headers = takeOver(reply)
    // Hooks and the log read the status.
    reply.code(this.send(asked, reply.raw, headers) ?? 500)
  }

  #choose(asked: IncomingHttpHeaders): Encoding {
    const accepted = asked['accept-encoding']
    return accepted === undefined || !this.#isCompressible ? 'identity' : chooseEncoding(String(accepted))
  }

  #add(encoding: Encoding, bytes: Buffer): void {
    const headersOf304 = [...(this.#status === 200 ? ['etag', `"${this.#etag}${SUFFIXES[encoding]}"`] : []), ...this.#common]
    const headers = [
      ...['content-type', 'application/json; charset=utf-8', 'content-length', String(bytes.length)],
      ...(encoding === 'identity' ? [] : ['content-encoding', encoding]),
      ...headersOf304,
    ]
    this.#variants.set(encoding, { headers, headersOf304, bytes })
  }
}

/** Sends 304 before the answer is rendered when the client has it in any encoding. */
export function sendNotModified(
  asked: IncomingHttpHeaders,
  reply: FastifyReply,
  { etag, language, lifetimes }: Pick<AnswerOptions, 'etag' | 'language' | 'lifetimes'>,
): boolean {
  const condition = asked['if-none-match']
  // `*` matches any existing answer, and it is not known yet whether one exists.
  if (condition === undefined || condition.includes('*') || !isKnown(condition, etag)) return false
  const known = Object.values(SUFFIXES).find((suffix) => condition.includes(`"${etag}${suffix}"`)) ?? ''
  const headers = takeOver(reply.code(304))
  reply.raw.writeHead(304, ['etag', `"${etag}${known}"`, ...cacheHeaders(lifetimes, language ?? null), ...headers])
  reply.raw.end()
  return true
}

export function entityTag(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22)
}

export function cacheHeaders({ browserSeconds, sharedSeconds }: CacheLifetimes, language: AnswerLanguage | null = null): string[] {
  return [
    ...['cache-control', `public, max-age=${browserSeconds}, s-maxage=${sharedSeconds}, ${STALE}`],
    ...['cdn-cache-control', `max-age=${sharedSeconds}, ${STALE}`],
    ...languageHeaders(language),
  ]
}

/** A browser that kept a redirection for each direction would loop, so only purged caches keep them. */
function redirectionHeaders({ sharedSeconds }: CacheLifetimes, language: AnswerLanguage | null): string[] {
  return [
    ...['cache-control', `public, max-age=0, s-maxage=${sharedSeconds}`],
    ...['cdn-cache-control', `max-age=${sharedSeconds}, ${STALE}`],
    ...languageHeaders(language),
  ]
}

function languageHeaders(language: AnswerLanguage | null): string[] {
  const vary = language?.isNegotiated === true ? 'Accept-Encoding, Accept-Language' : 'Accept-Encoding'
  return ['vary', vary, ...(language === null ? [] : ['content-language', language.tag])]
}

/** Fastify would process each header and the body again. Returns all headers except `cache-control`. */
function takeOver(reply: FastifyReply): string[] {
  reply.hijack()
  reply.removeHeader('cache-control')
  return Object.entries(reply.getHeaders()).flatMap(([name, value]) => [name, String(value)])
}

/** The part of RFC 9110 §12.5.3 that browsers and CDNs use. Brotli has precedence over gzip. */
function chooseEncoding(accepted: string): Encoding {
  if (/\bbr\b(?!\s*;\s*q=0(\.0*)?(,|\s|$))/i.test(accepted)) return 'br'
  if (/\bgzip\b(?!\s*;\s*q=0(\.0*)?(,|\s|$))/i.test(accepted)) return 'gzip'
  return 'identity'
}

/** `etag` has no quotes. Any encoding of the answer counts, compared weakly (RFC 9110 §13.1.2). */
export function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  // The usual form of browsers and caches needs no parsing.
  if (ifNoneMatch.length === etag.length + 2 && ifNoneMatch === `"${etag}"`) return true
  return ifNoneMatch.split(',').some((candidate) => {
    const tag = candidate.trim().replace(/^W\//, '')
    return tag === '*' || Object.values(SUFFIXES).some((suffix) => tag === `"${etag}${suffix}"`)
  })
}

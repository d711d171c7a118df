import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply } from 'fastify'

/** The times in seconds that caches may keep an answer. */
export interface CacheLifetimes {
  browserSeconds: number
  /** Lifetime in caches that serve many, such as a CDN. They are purged when something changes. */
  sharedSeconds: number
}

/** The header from which a cache reads the tags: Varnish and Fastly use `Surrogate-Key`, Cloudflare `Cache-Tag`. */
export type TagHeader = 'surrogate-key' | 'cache-tag'

/** The tags as `writeHead` takes them. */
export function taggedFor(headers: readonly TagHeader[], tags: readonly string[]): string[] {
  return headers.flatMap((name) => [name, tags.join(name === 'cache-tag' ? ',' : ' ')])
}

/** Times in seconds. */
/** A cache may serve an answer so long after its lifetime. */
export const STALE_SECONDS = 86_400
const STALE = `stale-while-revalidate=60, stale-if-error=${STALE_SECONDS}`

export interface AnswerOptions {
  /** Opaque, of letters, digits, `-` and `_`. */
  etag: string
  lastModified: Date
  /** The tags by which caches purge the answer. */
  tags: readonly string[]
  tagHeaders: readonly TagHeader[]
  /** RFC 8288. */
  link?: string | undefined
  /** The address that the answer leads to: 301 instead of 200. */
  location?: string | undefined
  language?: AnswerLanguage | null | undefined
  lifetimes: CacheLifetimes
}

/** The language of an answer, and whether the request's `Accept-Language` has chosen it. */
export interface AnswerLanguage {
  /** BCP 47. */
  tag: string
  isNegotiated: boolean
}

const SUFFIXES = { identity: '', gzip: '-gz', br: '-br' }
type Encoding = keyof typeof SUFFIXES

/** A body in one encoding, with its headers as Node's `writeHead` takes them. */
interface Variant {
  headers: readonly string[]
  /** Headers of the 304 to a client that has these bytes. */
  headersOf304: readonly string[]
  bytes: Buffer
}

/** A smaller body saves too little to be worth another entry in caches. */
const MIN_COMPRESSED_BYTES = 1_400
const BROTLI_QUALITY = 5

/** An answer for any caller, which caches may keep (RFC 9111, 5861, 9213): rendered once, sent many times. */
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

  /** The size without the compressed forms, whose size `prepare` returns. */
  get sizeBytes(): number {
    return this.#identity.bytes.length + JSON.stringify(this.#common).length
  }

  get #identity(): Variant {
    return this.#variants.get('identity') as Variant
  }

  /** Compresses the body for the client's preferred encoding unless that is done. Returns the additional bytes. */
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

  /**
   * Sends the answer with additional `headers`, or 304 when the client has it, and returns the status. Returns null and sends nothing when
   * `prepare` must run first.
   */
  send(asked: IncomingHttpHeaders, response: ServerResponse, headers: readonly string[]): 200 | 301 | 304 | null {
    const encoding = this.#choose(asked)
    const variant = this.#variants.get(encoding)
    if (variant === undefined) return null
    // RFC 9110 §13.2.1: conditions do not apply to a redirection.
    const isUnchanged = this.#status === 200 && isKnown(asked['if-none-match'], this.#etag)
    const status = isUnchanged ? 304 : this.#status
    response.writeHead(status, (isUnchanged ? variant.headersOf304 : variant.headers).concat(headers))
    response.end(isUnchanged ? undefined : variant.bytes)
    return status
  }

  /** Sends the answer in place of Fastify's reply. */
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

/** Sends 304 and returns true when the client has the answer with this entity tag, in any encoding, before the answer is rendered. */
export function sendNotModified(
  asked: IncomingHttpHeaders,
  reply: FastifyReply,
  { etag, language, lifetimes }: Pick<AnswerOptions, 'etag' | 'language' | 'lifetimes'>,
): boolean {
  const condition = asked['if-none-match']
  // `*` matches any existing answer, and whether one exists is not known yet.
  if (condition === undefined || condition.includes('*') || !isKnown(condition, etag)) return false
  const known = Object.values(SUFFIXES).find((suffix) => condition.includes(`"${etag}${suffix}"`)) ?? ''
  const headers = takeOver(reply.code(304))
  reply.raw.writeHead(304, ['etag', `"${etag}${known}"`, ...cacheHeaders(lifetimes, language ?? null), ...headers])
  reply.raw.end()
  return true
}

/** An entity tag that differs when one of `parts` does. */
export function entityTag(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22)
}

/** Headers of an answer that caches may keep, as `writeHead` takes them. */
export function cacheHeaders({ browserSeconds, sharedSeconds }: CacheLifetimes, language: AnswerLanguage | null = null): string[] {
  return [
    ...['cache-control', `public, max-age=${browserSeconds}, s-maxage=${sharedSeconds}, ${STALE}`],
    ...['cdn-cache-control', `max-age=${sharedSeconds}, ${STALE}`],
    ...languageHeaders(language),
  ]
}

/** Purged caches alone may keep a redirection: a browser that kept one for each direction would loop. */
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

/** Takes the reply from Fastify, which would process each header and the body again. Returns the headers of every answer, but for `cache-control`. */
function takeOver(reply: FastifyReply): string[] {
  reply.hijack()
  reply.removeHeader('cache-control')
  return Object.entries(reply.getHeaders()).flatMap(([name, value]) => [name, String(value)])
}

/** The part of RFC 9110 §12.5.3 that browsers and CDNs use: an encoding that is named without `q=0`; brotli before gzip. */
function chooseEncoding(accepted: string): Encoding {
  if (/\bbr\b(?!\s*;\s*q=0(\.0*)?(,|\s|$))/i.test(accepted)) return 'br'
  if (/\bgzip\b(?!\s*;\s*q=0(\.0*)?(,|\s|$))/i.test(accepted)) return 'gzip'
  return 'identity'
}

/** `etag` has no quotes. RFC 9110 §13.1.2: a list of entity tags, compared weakly, or `*`. Any encoding of the same answer counts. */
export function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  // The usual form of browsers and caches, without the work below.
  if (ifNoneMatch.length === etag.length + 2 && ifNoneMatch === `"${etag}"`) return true
  return ifNoneMatch.split(',').some((candidate) => {
    const tag = candidate.trim().replace(/^W\//, '')
    return tag === '*' || Object.values(SUFFIXES).some((suffix) => tag === `"${etag}${suffix}"`)
  })
}

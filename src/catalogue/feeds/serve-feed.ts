import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { cacheHeaders, sendNotModified, taggedFor } from '../../http/cacheable.ts'
import { clientAddress, siteOf } from '../../http/client-address.ts'
import { inSnapshot, type Version } from '../catalogue-version.ts'
import { CATALOGUE_TAG, LISTS_TAG } from '../events.ts'
import { translationsFor } from '../languages.ts'
import type { SalePrice } from '../offered-prices.ts'
import { listDetailsAfter, type ProductDetails, presentPage, type StoredProduct } from '../product-details.ts'
import { type CatalogueContext, versionTag } from '../serve-catalogue.ts'
import { type FeedPart, feedParts, renderPart } from './feed-parts.ts'

/** The most products in a read. */
const BATCH = 100
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

export interface Feed {
  contentType: string
  /** Everything besides the catalogue that the bytes depend on. */
  key: string
  /** The language in the query. Undefined for the products' own texts. */
  lang: string | undefined
  head: string
  /** `language` is that of the texts. */
  render: (product: ProductDetails, language: string, sales: readonly SalePrice[]) => string
  end: string
}

/**
 * Sends all products in id order. Each batch is read in its own snapshot after the client has taken the previous batch,
 * so a slow client holds no connection and no transaction. The entity tag is correct for all batches while the
 * catalogue version is that of the first one. See docs/decisions/catalogue-feeds.md.
 */
export async function serveFeed(context: CatalogueContext, request: FastifyRequest, reply: FastifyReply, feed: Feed): Promise<unknown> {
  const { version, lifetimes, tagHeaders, openFeeds } = context
  const now = await version.get()
  const known = describeFeed(context, now, feed)
  if (sendNotModified(request.headers, reply, { ...known, lifetimes })) return reply
  // A client that has disconnected takes no place, because its `close` event is over and would not free the place.
  const isUnread = request.method === 'HEAD' || reply.raw.destroyed
  // Resets the connection, because an HTTP/1.0 client would take a normal end for the feed's end.
  const cutOff = () => reply.raw.socket?.resetAndDestroy()
  const place = isUnread ? null : openFeeds.open(siteOf(clientAddress(request)), cutOff)
  try {
    if (place !== null) reply.raw.once('close', () => openFeeds.close(place))
    const first = isUnread ? { found: [], version: now } : await readBatch(context, request, FIRST_ID, feed)
    const { etag, language } = describeFeed(context, first.version, feed)
    const headers = [...cacheHeaders(lifetimes, language), ...taggedFor(tagHeaders, [CATALOGUE_TAG, LISTS_TAG])]
    for (let i = 0; i < headers.length; i += 2) reply.header(headers[i] ?? '', headers[i + 1])
    reply.headers({
      etag: `"${etag}"`,
      'last-modified': first.version.changedAt.toUTCString(),
      'accept-ranges': 'none',
      'content-type': feed.contentType,
    })
    // An empty stream keeps Fastify from adding a length of 0, which GET does not have.
    if (place === null) return reply.send(Readable.from([]))
    const render = rendererOf(context, feed, first.version)
    const parts = feedParts(render(first, feed.head), async (id) => render(await readBatch(context, request, id, feed)))
    const body = Readable.from(openFeeds.pace(place, parts), { highWaterMark: 1 })
    return reply.send(body.once('error', cutOff))
  } catch (error) {
    if (place !== null) openFeeds.close(place)
    throw error
  }
}

/** Ignores `Accept-Language`, because an advertiser has a feed for each language. */
function describeFeed({ languages }: CatalogueContext, version: Version, { key, lang }: Feed) {
  const language = lang === undefined ? null : languages.choose(version, { lang, acceptLanguage: undefined })
  return { language, etag: versionTag(version, `${key} ${language?.tag}`) }
}

interface Batch {
  found: StoredProduct[]
  version: Version
}

/** Renders batches in the language chosen in `version`; the first one follows `head`. */
function rendererOf(context: CatalogueContext, feed: Feed, version: Version) {
  const { language } = describeFeed(context, version, feed)
  const view = { languages: language === null ? [] : translationsFor(version, language), currency: null }
  const tag = language?.tag ?? context.languages.own
  return ({ found }: Batch, head = ''): FeedPart => {
    const part = renderPart(found, (product) => feed.render(presentPage(product, view), tag, product.sale_prices))
    const end = part.lastId === null ? feed.end : ''
    return head + end === '' ? part : { ...part, bytes: Buffer.concat([Buffer.from(head), part.bytes, Buffer.from(end)]) }
  }
}

/**
 * The next products after an id. All feeds together read one batch at a time, so the admitted one waits for no other.
 */
async function readBatch(
  { pool, version, admission }: CatalogueContext,
  request: FastifyRequest,
  afterId: string,
  { lang }: Feed,
): Promise<Batch> {
  const read = () => inSnapshot(pool, (tx) => listDetailsAfter(tx, afterId, BATCH, lang !== undefined))
  const batch = await admission.admit('feed', request, read)
  version.observe(batch.version)
  return batch
}

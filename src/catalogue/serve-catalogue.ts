import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Pool, Transaction } from '../db/pool.ts'
import { CacheableAnswer, type CacheLifetimes, entityTag, sendNotModified } from '../http/cacheable.ts'
import type { Shortcut } from '../http/shortcut.ts'
import { type CatalogueVersion, inSnapshot, type Version } from './catalogue-version.ts'
import { CATALOGUE_TAG } from './events.ts'
import type { PageCache } from './page-cache.ts'
import { ProductDetailsSchema } from './product-details.ts'
import type { ReadLimiter } from './search/read-limiter.ts'

/** An answer that is ready to be sent, and the pattern of its route. */
export interface ReadyPage {
  route: string
  answer: CacheableAnswer
  sizeBytes: number
}

/** What the routes of the catalogue need. */
export interface CatalogueContext {
  pool: Pool
  /** The address of the API, for links. */
  baseUrl: string
  version: CatalogueVersion
  pages: PageCache<ReadyPage>
  /** Every read of the database passes `reads`; a search or a count passes `searches` first. See decision 0160. */
  limits: { reads: ReadLimiter; searches: ReadLimiter }
  lifetimes: CacheLifetimes
}

/** The content of an answer, before it is serialized and compressed. */
export interface CatalogueContent {
  body: unknown
  tags: readonly string[]
  /** By default it is made of the catalogue's version and the query. */
  etag?: string
  lastModified?: Date
  link?: string
  /** The address that the answer leads to: 301 instead of 200. */
  location?: string
}

// A new release with another shape of products changes every entity tag.
const SHAPE = entityTag(JSON.stringify(ProductDetailsSchema))

/** Answers repeated requests from memory while the catalogue is unchanged: see `addShortcut`. */
export function catalogueShortcut({ version, pages }: CatalogueContext): Shortcut {
  return (request, response, headers) => {
    const now = version.current
    const page = now === null ? undefined : pages.findByAddress(request.url ?? '', now.changes)
    const status = page?.answer.send(request.headers, response, headers) ?? null
    return page === undefined || status === null ? null : { route: page.route, status }
  }
}

/**
 * Answers with what `read` returns for `key`, from memory while the catalogue is unchanged. A client that has the answer gets 304 without
 * a query. Concurrent requests for the same answer share one read. `cost`: what it depends on, the size of a page or the number of matches.
 */
export async function serveCatalogue(
  context: CatalogueContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { key, cost }: { key: string; cost: 'page' | 'search' },
  read: (tx: Transaction) => Promise<CatalogueContent>,
): Promise<FastifyReply> {
  const { pool, version, pages, limits, lifetimes } = context
  const now = await version.get()
  const ready = pages.find(key, now.changes)
  if (ready === undefined && sendNotModified(request.headers, reply, versionTag(now, key), lifetimes)) return reply
  const load = async () => {
    const { found, version: readAt } = await inSnapshot(pool, read)
    version.observe(readAt)
    const answer = new CacheableAnswer(JSON.stringify(found.body), {
      etag: found.etag ?? versionTag(readAt, key),
      lastModified: found.lastModified ?? readAt.changedAt,
      tags: [CATALOGUE_TAG, ...found.tags],
      link: found.link,
      location: found.location,
      lifetimes,
    })
    const route = request.routeOptions.url ?? ''
    return { version: readAt.changes, value: { route, answer, sizeBytes: answer.sizeBytes } }
  }
  const limited = () => limits.reads.admit(load)
  const page = ready ?? (await pages.get(key, now.changes, cost === 'page' ? limited : () => limits.searches.admit(limited)))
  pages.remember(request.raw.url ?? '', key)
  pages.addBytes(await page.answer.prepare(request.headers))
  page.answer.reply(request.headers, reply)
  return reply
}

// With the time of the change: after a restored backup the same number may mean another catalogue.
function versionTag({ changes, changedAt }: Version, key: string): string {
  return entityTag(SHAPE, String(changes), changedAt.toISOString(), key)
}

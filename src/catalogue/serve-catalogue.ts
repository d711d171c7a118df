import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Pool, Transaction } from '../db/pool.ts'
import { CacheableAnswer, type CacheLifetimes, entityTag, sendNotModified } from '../http/cacheable.ts'
import { type CatalogueVersion, inSnapshot, type Version } from './catalogue-version.ts'
import { CATALOGUE_TAG } from './events.ts'
import type { PageCache } from './page-cache.ts'
import { ProductSchema } from './products.ts'

/** What answering for the catalogue takes. */
export interface CatalogueContext {
  pool: Pool
  /** The address of the API, for links. */
  baseUrl: string
  version: CatalogueVersion
  pages: PageCache<CacheableAnswer>
  lifetimes: CacheLifetimes
}

/** What an answer says, before it is made ready to be sent. */
export interface CatalogueContent {
  body: unknown
  tags: readonly string[]
  /** Without it the answer's tag is that of the catalogue's version and the query. */
  etag?: string
  lastModified?: Date
  link?: string
}

// A new shape of products makes every entity tag a new one.
const SHAPE = JSON.stringify(ProductSchema)

/** Answers from memory, before anything else is done for the request, when it came before and nothing has changed. An `onRequest` hook. */
export function serveWarm({ version, pages }: CatalogueContext) {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void): void => {
    const now = version.current
    const answer = now === null ? undefined : pages.findByAddress(request.raw.url ?? '', now.changes)
    if (answer === undefined || !answer.send(request, reply)) done()
  }
}

/**
 * Answers with what `read` gives for `key`, from memory when the catalogue has not changed since. A client that has the answer is
 * told so without a query. Requests that wait for the same answer make one.
 */
export async function serveCatalogue(
  context: CatalogueContext,
  request: FastifyRequest,
  reply: FastifyReply,
  key: string,
  read: (tx: Transaction) => Promise<CatalogueContent>,
): Promise<FastifyReply> {
  const { pool, version, pages, lifetimes } = context
  const now = await version.get()
  const found = pages.find(key, now.changes)
  if (found === undefined && sendNotModified(request, reply, versionTag(now, key), lifetimes)) return reply
  const answer =
    found ??
    (await pages.get(key, now.changes, () =>
      inSnapshot(pool, async (tx, read_at) => {
        version.saw(read_at)
        const { body, tags, etag, lastModified, link } = await read(tx)
        const value = new CacheableAnswer(JSON.stringify(body), {
          etag: etag ?? versionTag(read_at, key),
          lastModified: lastModified ?? read_at.changedAt,
          tags: [CATALOGUE_TAG, ...tags],
          link,
          lifetimes,
        })
        return { version: read_at.changes, value }
      }),
    ))
  pages.remember(request.raw.url ?? '', key)
  pages.grown(await answer.prepare(request))
  answer.send(request, reply)
  return reply
}

// With the time of the change: after a backup was restored the same number may stand for another catalogue.
function versionTag({ changes, changedAt }: Version, key: string): string {
  return entityTag(SHAPE, String(changes), changedAt.toISOString(), key)
}

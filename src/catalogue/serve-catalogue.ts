import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Pool, Transaction } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import type { Admission } from '../http/admission.ts'
import { withoutAdvertisingParameters } from '../http/advertising-parameters.ts'
import { type AnswerLanguage, CacheableAnswer, type CacheLifetimes, entityTag, sendNotModified, type TagHeader } from '../http/cacheable.ts'
import type { Shortcut } from '../http/shortcut.ts'
import { type CatalogueVersion, inSnapshot, type Version } from './catalogue-version.ts'
import { CATALOGUE_TAG } from './events.ts'
import type { OpenFeeds } from './feeds/open-feeds.ts'
import { type CatalogueLanguages, translationsFor } from './languages.ts'
import type { PageCache } from './page-cache.ts'
import { EditedProductSchema } from './product-details.ts'

/** An answer that is ready to send, and its route's pattern. */
export interface ReadyPage {
  route: string
  answer: CacheableAnswer
  sizeBytes: number
}

export interface CatalogueContext {
  pool: Pool
  /** The API's address, for links. */
  baseUrl: string
  version: CatalogueVersion
  languages: CatalogueLanguages
  pages: PageCache<ReadyPage>
  /**
   * A read takes one place: of `page`, of `search` if the number of matches determines the cost, or of `feed` for a
   * feed's part.
   */
  admission: Admission
  openFeeds: OpenFeeds
  /** The address of products' pages in the shop, with `{slug}`; null if unknown. */
  productUrl: string | null
  lifetimes: CacheLifetimes
  tagHeaders: readonly TagHeader[]
}

/** An answer's content before serialization and compression. */
export interface CatalogueContent {
  body: unknown
  tags: readonly string[]
  /** The entity tag. The default is made of the catalogue version and the query. */
  etag?: string
  lastModified?: Date
  link?: string
  /** The redirect's address: 301 instead of 200. */
  location?: string
}

// A release with another product shape must change every entity tag.
const SHAPE = entityTag(JSON.stringify(EditedProductSchema))

/** Answers repeated requests from memory while the catalogue is unchanged: see `addShortcut`. */
export function catalogueShortcut({ version, languages, pages }: CatalogueContext): Shortcut {
  return (request, response, headers) => {
    const now = version.current
    const address = now === null ? '' : addressOf(request, languages.negotiate(now, request.headers['accept-language']))
    const page = now === null ? undefined : pages.findByAddress(address, now.changes)
    const status = page?.answer.send(request.headers, response, headers) ?? null
    return page === undefined || status === null ? null : { route: page.route, status }
  }
}

/** A query in canonical form. */
export interface CatalogueQuery {
  key: string
  /** Whether the cost depends on the page's size or on the number of matches. */
  cost: 'page' | 'search'
  /** The language in the query. Undefined to use `Accept-Language`, null for an answer without product texts. */
  lang: string | undefined | null
}

/**
 * The languages of an answer. `language` is null while the catalogue has only its own. `translations` has the preferred
 * one first.
 */
export interface Texts {
  language: AnswerLanguage | null
  translations: readonly string[]
}

/** The catalogue gained or lost a language while an answer was read, so the texts may be in the wrong language. */
class LanguagesChanged extends Error {
  override readonly name = 'LanguagesChanged'
}

const MAX_TRIES = 5
/** Longer keys are hashed. */
const MAX_KEY_LENGTH = 300

/**
 * Answers with the content that `read` returns for `key`, from memory while the catalogue is unchanged. A client that
 * has the answer gets 304 without a query. Concurrent requests for the same answer share one read.
 */
export async function serveCatalogue(
  context: CatalogueContext,
  request: FastifyRequest,
  reply: FastifyReply,
  query: CatalogueQuery,
  read: (tx: Transaction, texts: Texts) => Promise<CatalogueContent>,
): Promise<FastifyReply> {
  for (let tries = 1; ; tries++) {
    try {
      return await serve(context, request, reply, query, read)
    } catch (error) {
      if (!(error instanceof LanguagesChanged)) throw error
      // The next try knows the version that this one read, unless a restore is in progress.
      if (tries === MAX_TRIES) throw new AppError('unavailable', 'The catalogue is changing too quickly to answer. Retry in a moment.')
    }
  }
}

async function serve(
  context: CatalogueContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { key: queryKey, cost, lang }: CatalogueQuery,
  read: (tx: Transaction, texts: Texts) => Promise<CatalogueContent>,
): Promise<FastifyReply> {
  const { pool, version, languages, pages, admission, lifetimes, tagHeaders } = context
  const now = await version.get()
  const acceptLanguage = request.headers['accept-language']
  const language = lang === null ? null : languages.choose(now, { lang, acceptLanguage })
  const wholeKey = language === null ? queryKey : `${language.tag}${language.isNegotiated ? '' : '!'} ${queryKey}`
  const key = wholeKey.length <= MAX_KEY_LENGTH ? wholeKey : entityTag(wholeKey)
  const texts = { language, translations: language === null ? [] : translationsFor(now, language) }
  const ready = pages.find(key, now.changes)
  if (ready === undefined && sendNotModified(request.headers, reply, { etag: versionTag(now, key), language, lifetimes })) return reply
  const load = async () => {
    const { found, version: readAt } = await inSnapshot(pool, (tx) => read(tx, texts))
    version.observe(readAt)
    if (readAt.languages.join() !== now.languages.join()) throw new LanguagesChanged()
    const answer = new CacheableAnswer(JSON.stringify(found.body), {
      etag: found.etag ?? versionTag(readAt, key),
      lastModified: found.lastModified ?? readAt.changedAt,
      tags: [CATALOGUE_TAG, ...found.tags],
      tagHeaders,
      link: found.link,
      location: found.location,
      language,
      lifetimes,
    })
    const route = request.routeOptions.url ?? ''
    return { version: readAt.changes, value: { route, answer, sizeBytes: answer.sizeBytes } }
  }
  const owner = admission.quotaKey(request).at(-1) ?? ''
  const admit = (work: () => Promise<void>) => admission.admit(cost, request, work)
  const page = ready ?? (await pages.get(key, now.changes, { owner, admit, load }))
  pages.remember(addressOf(request.raw, languages.negotiate(now, acceptLanguage)), key, now.changes)
  pages.addBytes(await page.answer.prepare(request.headers))
  page.answer.reply(request.headers, reply)
  return reply
}

/**
 * The key of an address's page. `language` is the request's negotiated language instead of its `Accept-Language` text,
 * so few addresses belong to a page.
 */
function addressOf({ url = '' }: { url?: string }, language: string | null): string {
  const address = withoutAdvertisingParameters(url)
  return language === null ? address : `${language} ${address}`
}

/** The tag contains the change's time, because the same number may mean another catalogue after a restore. */
export function versionTag({ changes, changedAt }: Version, key: string): string {
  return entityTag(SHAPE, String(changes), changedAt.toISOString(), key)
}

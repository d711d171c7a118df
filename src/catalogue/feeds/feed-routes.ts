import { Type } from 'typebox'
import { AppError } from '../../errors.ts'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { Lang } from '../product-query.ts'
import type { CatalogueContext } from '../serve-catalogue.ts'
import { type LinkTo, RSS_END, rssHead, rssItem } from './product-rss.ts'
import { serveFeed } from './serve-feed.ts'

const FeedQuery = Type.Object(
  { lang: Type.Optional({ ...Lang, description: "The language of the texts (BCP 47). By default the products' own texts." }) },
  { additionalProperties: false },
)
const document = (contentType: string) => ({ content: { [contentType]: { schema: Type.String() } } })
const DESCRIPTION =
  'Contains all products except archived ones, sorted by id. The answer is streamed: a product that changes meanwhile is in it once, in its old or new state, and an error in the middle ends the ' +
  'connection. Send the `ETag` as `If-None-Match`: the answer is 304 while no product has changed. Range requests are not supported.'

/** Feeds of all products, for advertisers and other programs. */
export function feedRoutes(server: HttpServer, context: CatalogueContext): void {
  const { productUrl } = context
  const linkTo: LinkTo | null =
    productUrl === null
      ? null
      : (slug, language) => productUrl.replaceAll('{slug}', encodeURIComponent(slug)).replaceAll('{lang}', language)

  defineRoute(
    server,
    'GET /feeds/products.xml',
    {
      access: 'public',
      cost: 'feed',
      isReadableByAnyOrigin: true,
      operationId: 'getProductFeed',
      summary: 'All products for advertisers, as RSS 2.0',
      description: `Has the elements of Google's product data specification, which other advertisers read, too. ${DESCRIPTION} Without the setting \`SHOP_PRODUCT_URL\` there are no links, and the answer is 404.`,
      query: FeedQuery,
      answers: { 200: [document('application/xml'), 'RSS 2.0.'] },
      refuses: ['not_found', 'rate_limited'],
    },
    async (request, reply) => {
      if (linkTo === null || productUrl === null) {
        throw new AppError('not_found', 'This store has no feed for advertisers: its setting SHOP_PRODUCT_URL is missing.')
      }
      return serveFeed(context, request, reply, {
        contentType: 'application/xml; charset=utf-8',
        key: `feed xml 1 ${productUrl}`,
        lang: request.query.lang,
        head: rssHead(new URL('/', linkTo('slug', 'en')).href),
        render: (product, language, sales) => rssItem(product, linkTo(product.slug, language), sales),
        end: RSS_END,
      }) as never
    },
  )

  defineRoute(
    server,
    'GET /feeds/products.ndjson',
    {
      access: 'public',
      cost: 'feed',
      isReadableByAnyOrigin: true,
      operationId: 'exportProducts',
      summary: 'All products, one JSON object per line',
      description: `Each line is a product as in \`GET /products/{id}\`. With the setting \`SHOP_PRODUCT_URL\` it also has \`link\`, the address of its page in the shop. ${DESCRIPTION}`,
      query: FeedQuery,
      answers: { 200: [document('application/x-ndjson'), 'One product per line.'] },
      refuses: ['rate_limited'],
    },
    async (request, reply) =>
      serveFeed(context, request, reply, {
        contentType: 'application/x-ndjson',
        key: `feed ndjson 1 ${productUrl}`,
        lang: request.query.lang,
        head: '',
        render: (product, language) =>
          `${JSON.stringify(linkTo === null ? product : { ...product, link: linkTo(product.slug, language) })}\n`,
        end: '',
      }) as never,
  )
}

import { FiguresSchema, RangeQuery } from '../figures/figure-schemas.ts'
import { FiguresCache, type FiguresOptions } from '../figures/figures-cache.ts'
import { entityTag, isKnown } from '../http/cacheable.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'

/** `GET /admin/figures`: what the store did in the last hour, day or week, or today. */
export function figuresRoutes(server: HttpServer, options: FiguresOptions): void {
  const cache = new FiguresCache(options)
  defineRoute(
    server,
    'GET /admin/figures',
    {
      access: 'figures:read',
      operationId: 'getFigures',
      summary: 'Orders and revenue over the last hour, day or week, or today',
      description:
        'Collected once a minute, so at most about a minute behind; kept for eight days. Send the `ETag` as `If-None-Match`: while nothing new was ' +
        'collected the answer is 304. Amounts are in minor units. The last step is not over, so its counts still increase. ' +
        'Today begins at the midnight of the shop, so a day on which the clocks change has 23 or 25 hours.',
      query: RangeQuery,
      answers: { 200: [FiguresSchema, 'The figures of the range.'], 304: 'Nothing has changed since the answer with this entity tag.' },
    },
    async (request, reply) => {
      const body = await cache.get(request.query.range ?? 'hour')
      const etag = entityTag(body)
      // A cache may keep it for its operator, and asks each time.
      reply.headers({ 'cache-control': 'private, no-cache', etag: `"${etag}"` })
      if (isKnown(request.headers['if-none-match'], etag)) return reply.code(304).send(null)
      return reply.type('application/json; charset=utf-8').send(body as never)
    },
  )
}

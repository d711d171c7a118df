import type { Static, TSchema } from 'typebox'
import { defineRoute, sendPolled, sendPolledText } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import type { Scope } from '../http/scopes.ts'
import { FiguresSchema, MailsToDoSchema, OrdersToDoSchema, RangeQuery, StockToDoSchema } from './figure-schemas.ts'
import { FiguresCache, type FiguresOptions } from './figures-cache.ts'

export function figuresRoutes(server: HttpServer, options: FiguresOptions): void {
  const cache = new FiguresCache(options)
  defineRoute(
    server,
    'GET /admin/figures',
    {
      access: 'figures:read',
      operationId: 'getFigures',
      summary: 'Orders and revenue of the last hours or days, and of the period before',
      description:
        'The figures are collected once a minute and kept for 61 days. Send the `ETag` as `If-None-Match`: the answer is 304 until new figures are ' +
        'collected. Amounts are in minor units. Orders that were imported from another shop do not count. The last step is still running, so its values can increase. ' +
        'A day of the shop begins at midnight in its time zone, and has 23 or 25 hours when the clocks change.',
      query: RangeQuery,
      answers: { 200: [FiguresSchema, 'The figures of the range.'], 304: 'Nothing has changed since the answer with this entity tag.' },
    },
    async (request, reply) => {
      const body = await cache.figures(request.query.range ?? 'hour')
      // A cache may keep the answer for its operator, but must ask each time.
      reply.header('cache-control', 'private, no-cache')
      return sendPolledText(request, reply, body)
    },
  )
  const toDo = <S extends TSchema>(name: string, route: ToDo<S>) =>
    defineRoute(
      server,
      `GET /admin/to-do/${name}`,
      {
        ...{ access: route.access, operationId: route.operationId, summary: route.summary },
        description: 'The current state. Send the `ETag` as `If-None-Match`: the answer is 304 while nothing has changed.',
        answers: { 200: route.answer, 304: 'Nothing has changed since the answer with this entity tag.' },
      },
      async (request, reply) => sendPolled(request, reply, (await route.read()) as never),
    )
  toDo('orders', {
    access: 'orders:read',
    operationId: 'getOrdersToDo',
    summary: 'How many orders wait to be confirmed, shipped and paid, and for how long',
    answer: [OrdersToDoSchema, 'The counts.'],
    read: () => cache.ordersToDo(),
  })
  toDo('mails', {
    access: 'mails:read',
    operationId: 'getMailsToDo',
    summary: 'How many mails about orders have failed',
    answer: [MailsToDoSchema, 'The count.'],
    read: () => cache.mailsToDo(),
  })
  toDo('stock', {
    access: 'stock:read',
    operationId: 'getStockToDo',
    summary: 'How many products are sold out',
    answer: [StockToDoSchema, 'The count.'],
    read: () => cache.stockToDo(),
  })
}

interface ToDo<S extends TSchema> {
  access: Scope
  operationId: string
  summary: string
  answer: [S, string]
  read: () => Promise<Static<S>>
}

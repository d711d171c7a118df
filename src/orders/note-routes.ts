import { doingOf } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import type { HttpServer } from '../http/http-server.ts'
import { nextLink, PageOf } from '../http/pagination.ts'
import { JSON_BODY, OPERATOR_ONLY, okResponses, problemResponses } from '../http/problem.ts'
import { addOrderNote, listOrderNotes, NewOrderNote, OrderNoteQuery, OrderNoteSchema } from './order-notes.ts'
import { OrderParams } from './routes.ts'

/** Notes of operators and keys about orders: no answer to a customer, no event and no mail has them. */
export function orderNoteRoutes(server: HttpServer, { pool, baseUrl }: { pool: Pool; baseUrl: string }): void {
  const shared = { tags: ['operations'] }

  server.get(
    '/admin/orders/:id/notes',
    {
      config: { access: 'orders:read' },
      schema: {
        operationId: 'listOrderNotes',
        description: 'Pages: follow `next_cursor` until `has_more` is false. Customers never see notes.',
        ...shared,
        summary: 'The notes of operators and keys about an order, newest first, in pages',
        params: OrderParams,
        querystring: OrderNoteQuery,
        response: okResponses(
          PageOf(OrderNoteSchema),
          'A page of the notes.',
          ...OPERATOR_ONLY,
          'not_found',
          'invalid_query',
          'invalid_cursor',
        ),
      },
    },
    async (request, reply) => {
      const page = await listOrderNotes(pool, request.params.id, request.query)
      const link = nextLink(baseUrl, `/admin/orders/${request.params.id}/notes`, request.query, page.next_cursor)
      if (link !== undefined) reply.header('link', link)
      return reply.send(page)
    },
  )

  server.post(
    '/admin/orders/:id/notes',
    {
      config: { access: 'orders:move' },
      schema: {
        operationId: 'addOrderNote',
        description: 'A note is never changed. It is erased with the address of the order, after its account is deleted.',
        ...shared,
        summary: 'Adds a note for other operators to an order',
        params: OrderParams,
        body: NewOrderNote,
        response: {
          201: { ...OrderNoteSchema, description: 'The note.' },
          ...problemResponses(...OPERATOR_ONLY, ...JSON_BODY, 'not_found', 'order_erased'),
        },
      },
    },
    async (request, reply) => {
      const note = await addOrderNote(pool, request.params.id, request.body.text, doingOf(request))
      return reply.code(201).send(note)
    },
  )
}

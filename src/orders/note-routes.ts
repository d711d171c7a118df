import { auditContextOf } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { IdPosition, PageOf } from '../http/pagination.ts'
import { addOrderNote, listOrderNotes, NewOrderNote, OrderNoteSchema } from './order-notes.ts'
import { OrderParams } from './routes.ts'

export function orderNoteRoutes(server: HttpServer, pool: Pool): void {
  defineList(
    server,
    'GET /admin/orders/:id/notes',
    {
      access: 'orders:read',
      operationId: 'listOrderNotes',
      summary: 'The notes of operators and keys about an order, newest first, in pages',
      description: 'Pages: follow `next_cursor` until `has_more` is false. Customers never see notes.',
      params: OrderParams,
      page: PageOf(OrderNoteSchema),
      answer: 'A page of the notes.',
      position: IdPosition,
    },
    (request, paging) => listOrderNotes(pool, request.params.id, paging),
  )

  defineRoute(
    server,
    'POST /admin/orders/:id/notes',
    {
      access: 'orders:move',
      operationId: 'addOrderNote',
      summary: 'Adds a note for other operators to an order',
      description: "A note cannot be changed. It is erased with the order's address, after the customer's account is deleted.",
      params: OrderParams,
      body: NewOrderNote,
      answers: { 201: [OrderNoteSchema, 'The note.'] },
      refuses: ['order_erased'],
    },
    async (request) => {
      const note = await addOrderNote(pool, request.params.id, request.body.text, auditContextOf(request))
      return note
    },
  )
}

import { Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import type { AuthContext } from '../auth/context.ts'
import { mayUse } from '../http/caller.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { PageOf } from '../http/pagination.ts'
import { blockCustomer, eraseCustomer, unblockCustomer } from './block-customer.ts'
import { CustomerSchema } from './customers.ts'
import { CustomerLimit, CustomerPosition, CustomerSearch, getCustomer, searchCustomers } from './search-customers.ts'

const Params = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the customer.' }) })
const Block = Type.Object(
  {
    reason: Type.String({
      minLength: 1,
      maxLength: 500,
      description: 'For operators. Kept with the account, erased with it, and never shown to the customer.',
    }),
  },
  { title: 'CustomerBlock', additionalProperties: false, examples: [{ reason: 'Orders with stolen cards.' }] },
)

export function customerRoutes(server: HttpServer, auth: AuthContext): void {
  const { pool } = auth

  defineList(
    server,
    'GET /admin/customers',
    {
      access: 'customers:read',
      operationId: 'searchCustomers',
      summary: 'Customers and guests with the sums of their orders, newest first, or sorted by address if only `email` is given',
      description: 'Filters combine with AND. Pages: follow `next_cursor` until `has_more` is false.',
      filters: CustomerSearch,
      limit: CustomerLimit,
      page: PageOf(CustomerSchema),
      answer: 'A page of customers.',
      position: CustomerPosition,
    },
    (request, paging) => searchCustomers(pool, request.query, paging, { mayReadOrders: mayUse(request, 'orders:read') }),
  )

  defineRoute(
    server,
    'GET /admin/customers/:id',
    {
      access: 'customers:read',
      operationId: 'getCustomer',
      summary: 'One customer or guest, with the sums of its orders',
      description: 'Accounts of operators are not found. `GET /admin/orders?user_id=` lists the orders.',
      params: Params,
      answers: { 200: [CustomerSchema, 'The customer.'] },
    },
    (request) => getCustomer(pool, request.params.id),
  )

  defineRoute(
    server,
    'POST /admin/customers/:id/block',
    {
      access: 'customers:write',
      operationId: 'blockCustomer',
      summary: 'Blocks a customer or guest',
      description:
        'All sessions of the customer end within a second, and the customer cannot log in. Orders stay as they are. A repeated call changes the reason.',
      params: Params,
      body: Block,
      answers: { 204: 'The customer is blocked.' },
    },
    (request) => blockCustomer(auth, request.params.id, request.body.reason, auditContextOf(request)),
  )

  defineRoute(
    server,
    'POST /admin/customers/:id/unblock',
    {
      access: 'customers:write',
      operationId: 'unblockCustomer',
      summary: 'Unblocks a customer or guest',
      description: 'The customer can log in again. Ended sessions stay ended.',
      params: Params,
      answers: { 204: 'The customer is not blocked.' },
    },
    (request) => unblockCustomer(auth, request.params.id, auditContextOf(request)),
  )

  defineRoute(
    server,
    'DELETE /admin/customers/:id',
    {
      access: 'customers:write',
      stepUp: true,
      operationId: 'eraseCustomer',
      summary: 'Erases the account of a customer or guest, but keeps its orders for the retention period',
      description: 'Erases and keeps the same data as `DELETE /me`.',
      params: Params,
      answers: { 204: 'The account and all its sessions are gone.' },
    },
    (request) => eraseCustomer(auth, request.params.id, auditContextOf(request)),
  )
}

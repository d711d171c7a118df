import { Type } from 'typebox'
import { doingOf } from '../activity/record-activity.ts'
import type { AuthContext } from '../auth/context.ts'
import type { HttpServer } from '../http/http-server.ts'
import { nextLink, PageOf } from '../http/pagination.ts'
import { JSON_BODY, noContentResponses, OPERATOR_ONLY, okResponses, problemResponses } from '../http/problem.ts'
import { blockCustomer, eraseCustomer, unblockCustomer } from './block-customer.ts'
import { CustomerSchema } from './customers.ts'
import { CustomerSearch, getCustomer, searchCustomers } from './search-customers.ts'

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

export interface CustomerRoutesOptions {
  auth: AuthContext
  baseUrl: string
}

/** Accounts of customers, for operators. */
export function customerRoutes(server: HttpServer, { auth, baseUrl }: CustomerRoutesOptions): void {
  const shared = { tags: ['operations'] }
  const { pool } = auth

  server.get(
    '/admin/customers',
    {
      config: { access: 'customers:read' },
      schema: {
        operationId: 'searchCustomers',
        description: 'Filters combine with AND. Pages: follow `next_cursor` until `has_more` is false.',
        ...shared,
        summary: 'Customers and guests, by address where it is searched, else the newest first, with what they ordered',
        querystring: CustomerSearch,
        response: okResponses(PageOf(CustomerSchema), 'A page of customers.', ...OPERATOR_ONLY, 'invalid_query', 'invalid_cursor'),
      },
    },
    async (request, reply) => {
      const page = await searchCustomers(pool, request.query)
      const link = nextLink(baseUrl, '/admin/customers', request.query, page.next_cursor)
      if (link !== undefined) reply.header('link', link)
      return reply.send(page)
    },
  )

  server.get(
    '/admin/customers/:id',
    {
      config: { access: 'customers:read' },
      schema: {
        operationId: 'getCustomer',
        description: 'Accounts of operators are not found. The orders: `GET /admin/orders?user_id=`.',
        ...shared,
        summary: 'One customer or guest, with the sums of its orders',
        params: Params,
        response: okResponses(CustomerSchema, 'The customer.', ...OPERATOR_ONLY, 'not_found'),
      },
    },
    async (request, reply) => reply.send(await getCustomer(pool, request.params.id)),
  )

  server.post(
    '/admin/customers/:id/block',
    {
      config: { access: 'customers:write' },
      schema: {
        operationId: 'blockCustomer',
        description:
          'All its sessions end, in every process within a second, and no new one opens. Its orders stay as they are. Repeated, it changes the reason.',
        ...shared,
        summary: 'Blocks a customer or guest',
        params: Params,
        body: Block,
        response: {
          204: Type.Null({ description: 'The customer is blocked.' }),
          ...problemResponses(...OPERATOR_ONLY, ...JSON_BODY, 'not_found'),
        },
      },
    },
    async (request, reply) => {
      await blockCustomer(auth, request.params.id, request.body.reason, doingOf(request))
      return reply.code(204).send(null)
    },
  )

  server.post(
    '/admin/customers/:id/unblock',
    {
      config: { access: 'customers:write' },
      schema: {
        operationId: 'unblockCustomer',
        description: 'The customer can log in again. Sessions that have ended stay so.',
        ...shared,
        summary: 'Unblocks a customer or guest',
        params: Params,
        response: noContentResponses('The customer is not blocked.', ...OPERATOR_ONLY, 'not_found', ...JSON_BODY),
      },
    },
    async (request, reply) => {
      await unblockCustomer(auth, request.params.id, doingOf(request))
      return reply.code(204).send(null)
    },
  )

  server.delete(
    '/admin/customers/:id',
    {
      config: { access: 'customers:write', stepUp: true },
      schema: {
        operationId: 'eraseCustomer',
        description: 'Erases and keeps what `DELETE /me` does.',
        ...shared,
        summary: 'Erases the account of a customer or guest; its orders stay for the retention period',
        params: Params,
        response: noContentResponses(
          'The account and all its sessions are gone.',
          ...OPERATOR_ONLY,
          'step_up_required',
          'not_found',
          ...JSON_BODY,
        ),
      },
    },
    async (request, reply) => {
      await eraseCustomer(auth, request.params.id, doingOf(request))
      return reply.code(204).send(null)
    },
  )
}

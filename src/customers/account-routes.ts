import { Readable } from 'node:stream'
import { Type } from 'typebox'
import { clientOf } from '../auth/client.ts'
import type { AuthContext } from '../auth/context.ts'
import type { Admission } from '../http/admission.ts'
import { callerOf } from '../http/caller.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import type { OrderStatus } from '../orders/order-status.ts'
import { ShippingAddressSchema } from '../orders/postal-address.ts'
import { AddressSchema, addAddress, changeAddress, deleteAddress, listAddresses } from './addresses.ts'
import { EXAMPLE_ADDRESS } from './examples.ts'
import { exportAccount } from './export-account.ts'

const strict = { additionalProperties: false }
const { address, is_default } = EXAMPLE_ADDRESS
const NewAddress = Type.Object(
  { address: ShippingAddressSchema, is_default: Type.Optional(Type.Boolean({ default: false })) },
  { title: 'NewCustomerAddress', examples: [{ address, is_default }], ...strict },
)
const AddressChange = Type.Object(
  { address: Type.Optional(ShippingAddressSchema), is_default: Type.Optional(Type.Boolean()) },
  { title: 'CustomerAddressChange', examples: [{ is_default: true }], ...strict },
)
const Addresses = Type.Object({ data: Type.Array(AddressSchema) }, { title: 'CustomerAddresses', examples: [{ data: [EXAMPLE_ADDRESS] }] })
const Params = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the address.' }) })
const Export = Type.Object(
  {},
  {
    title: 'AccountExport',
    additionalProperties: true,
    description: 'One property for each kind of data.',
    examples: [{ exported_at: EXAMPLE_ADDRESS.created_at, addresses: [EXAMPLE_ADDRESS] }],
  },
)

export function ownDataRoutes(
  server: HttpServer,
  { pool, throttle, now }: AuthContext,
  admission: Admission,
  cancellableStatuses: readonly OrderStatus[],
): void {
  defineRoute(
    server,
    'GET /me/addresses',
    {
      access: 'caller',
      cost: 'own',
      operationId: 'listAddresses',
      summary: "The caller's addresses, the oldest first",
      description: 'All addresses of the account, at most 50. An order takes an address as `shipping_address` and keeps its own copy.',
      answers: { 200: [Addresses, 'The addresses.'] },
    },
    async (request) => ({ data: await listAddresses(pool, callerOf(request).userId) }),
  )

  defineRoute(
    server,
    'POST /me/addresses',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'addAddress',
      summary: 'Adds an address',
      description: 'With `is_default` this address replaces the default.',
      body: NewAddress,
      answers: { 201: [AddressSchema, 'The address.'] },
      refuses: ['not_found', 'too_many_addresses'],
    },
    async (request) => {
      const { address, is_default: isDefault = false } = request.body
      const added = await addAddress(pool, callerOf(request).userId, { address, isDefault })
      return added
    },
  )

  defineRoute(
    server,
    'PATCH /me/addresses/:id',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'changeAddress',
      summary: "Changes one of the caller's addresses",
      description: 'Changes only the properties in the body. `address` is replaced as a whole.',
      params: Params,
      body: AddressChange,
      answers: { 200: [AddressSchema, 'The changed address.'] },
    },
    async (request) => {
      const { address, is_default: isDefault } = request.body
      const changed = await changeAddress(pool, callerOf(request).userId, request.params.id, { address, isDefault })
      return changed
    },
  )

  defineRoute(
    server,
    'DELETE /me/addresses/:id',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'deleteAddress',
      summary: "Deletes one of the caller's addresses",
      description: 'Orders keep their copies. After the default address is deleted, the account has no default.',
      params: Params,
      answers: { 204: 'The address is deleted.' },
    },
    (request) => deleteAddress(pool, callerOf(request).userId, request.params.id),
  )

  defineRoute(
    server,
    'GET /me/export',
    {
      access: 'caller',
      cost: 'export',
      operationId: 'exportAccount',
      summary: 'Everything that the store has about the caller, as JSON',
      description:
        'For Articles 15 and 20 of the GDPR: the account, its guests, sessions, addresses, orders with their history, mails about them, and idempotency ' +
        'keys. The answer is streamed, so an error in the middle ends the connection. Five exports an hour are allowed.',
      answers: { 200: [Export, 'The data.'] },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const client = clientOf(request)
      await admission.admit('token', request, () => throttle.countExport(client, caller.userId))
      client.record('account_exported', { user_id: caller.userId, session_id: caller.sessionId })
      return reply
        .header('content-disposition', 'attachment; filename="account.json"')
        .type('application/json; charset=utf-8')
        .send(Readable.from(admission.inParts('export', request, exportAccount(pool, caller.userId, now(), cancellableStatuses))) as never)
    },
  )
}

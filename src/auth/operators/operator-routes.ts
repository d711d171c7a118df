import { type Static, Type } from 'typebox'
import { auditContextOf } from '../../activity/record-activity.ts'
import { callerOf } from '../../http/caller.ts'
import { defineList, defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { IdPosition, PageOf } from '../../http/pagination.ts'
import { OPERATOR_ROLES } from '../../http/scopes.ts'
import type { AuthContext } from '../context.ts'
import { EXAMPLE_OPERATOR } from '../examples.ts'
import { Email, strict } from '../schemas.ts'
import { changeOperatorRole } from './change-operator-role.ts'
import { inviteOperator } from './invite-operator.ts'
import { getOperator, listOperators, type Operator } from './operators.ts'
import { resetOperatorFactors } from './reset-operator-factors.ts'

const Role = Type.Enum([...OPERATOR_ROLES], { title: 'OperatorRole' })
const OperatorSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    email: Type.String(),
    name: Type.Union([Type.String(), Type.Null()]),
    role: Role,
    is_email_verified: Type.Boolean({
      description: 'Whether the holder of the mailbox has proven the address, for example by accepting an invitation.',
    }),
    is_invited: Type.Boolean({ description: 'Whether the invitation is still open. The operator cannot sign in before accepting it.' }),
    has_second_factor: Type.Boolean({ description: 'A passkey or an authenticator app.' }),
    created_at: Type.String({ format: 'date-time' }),
  },
  { title: 'Operator', examples: [EXAMPLE_OPERATOR] },
)
const NewOperator = Type.Object(
  { email: Email, role: Role },
  { title: 'NewOperator', examples: [{ email: EXAMPLE_OPERATOR.email, role: EXAMPLE_OPERATOR.role }], ...strict },
)
const RoleChange = Type.Object({ role: Role }, { title: 'RoleChange', examples: [{ role: 'support' }], ...strict })
const Params = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the account.' }) })

export function operatorRoutes(server: HttpServer, context: AuthContext): void {
  const { pool } = context
  defineList(
    server,
    'GET /admin/operators',
    {
      access: 'access:write',
      operationId: 'listOperators',
      summary: 'Operators and their roles, in pages',
      description: 'The oldest accounts come first. docs/inside/security.md lists what each role may do.',
      page: PageOf(OperatorSchema),
      answer: 'A page of the operators.',
      position: IdPosition,
    },
    async (_request, { limit, after, page }) =>
      page(await listOperators(pool, { after: after?.[0] ?? null, limit: limit + 1 }), presentOperator, ({ id }) => [id]),
  )

  defineRoute(
    server,
    'POST /admin/operators',
    {
      access: 'access:write',
      stepUp: true,
      operationId: 'createOperator',
      summary: 'Makes an operator',
      description:
        'A new address gets an account and a mail that names the role and links to the console, where its one-time token sets the password ' +
        '(`POST /auth/password-reset/confirm`). The token is valid for three days. After that, `POST /auth/password-reset` mails another. An existing account keeps its password and gets the role if its address was proven.',
      body: NewOperator,
      answers: {
        200: [OperatorSchema, 'The existing account has the role. Its sessions have ended.'],
        201: [OperatorSchema, 'The account was created, and a token is mailed.'],
      },
      refuses: ['email_taken', 'address_unproven'],
    },
    async (request, reply) => {
      const { operator, isInvited } = await inviteOperator(context, request.body, auditContextOf(request))
      return reply.code(isInvited ? 201 : 200).send(presentOperator(operator))
    },
  )

  defineRoute(
    server,
    'PATCH /admin/operators/:id',
    {
      access: 'access:write',
      stepUp: true,
      operationId: 'updateOperator',
      summary: 'Changes the role of an operator',
      description:
        'The sessions of the operator end, and mailed tokens for a password stop working. An open invitation is mailed again with the ' +
        'new role. Operators cannot change their own role, and the last admin must stay an admin.',
      params: Params,
      body: RoleChange,
      answers: { 200: [OperatorSchema, 'The changed operator.'] },
      refuses: ['last_admin'],
    },
    async (request) => {
      const id = request.params.id.toLowerCase()
      await changeOperatorRole(context, id, request.body.role, auditContextOf(request))
      return presentOperator(await getOperator(pool, id))
    },
  )

  defineRoute(
    server,
    'DELETE /admin/operators/:id',
    {
      access: 'access:write',
      stepUp: true,
      operationId: 'removeOperator',
      summary: 'Takes the role from an operator',
      description:
        'The sessions and mailed tokens of the operator end. The account becomes that of a customer and keeps its orders. Operators cannot remove themselves, and the last admin cannot be removed.',
      params: Params,
      answers: { 204: 'The account no longer has a role.' },
      refuses: ['last_admin'],
    },
    async (request) => {
      const id = request.params.id.toLowerCase()
      await changeOperatorRole(context, id, null, auditContextOf(request))
    },
  )

  defineRoute(
    server,
    'DELETE /admin/operators/:id/factors',
    {
      access: 'access:write',
      stepUp: 'always',
      operationId: 'resetOperatorFactors',
      summary: 'Removes the second factors of another operator',
      description:
        'For an operator who has lost their second factors. Passkeys, authenticator app and recovery codes are removed, and sessions end. The password stays, and the owner gets a mail. ' +
        'Make sure that the owner has asked for it. Operators cannot reset their own factors. `storefront admin reset-factors` resets those of customers.',
      params: Params,
      answers: { 204: 'The password alone is now enough to sign in.' },
    },
    (request) =>
      resetOperatorFactors(context, request.params.id.toLowerCase(), { caller: callerOf(request), auditContext: auditContextOf(request) }),
  )
}

function presentOperator({ created_at, ...operator }: Operator): Static<typeof OperatorSchema> {
  return { ...operator, created_at: created_at.toISOString() }
}

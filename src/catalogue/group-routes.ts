import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { changeGroup, GroupSchema, getGroup, type TaggedGroup } from './change-group.ts'
import { GroupPatchBody } from './product-input.ts'
import { MAX_LENGTHS, MAX_VARIANTS } from './product-rules.ts'
import { requireIfMatch } from './require-if-match.ts'
import type { CatalogueContext } from './serve-catalogue.ts'

const GroupParams = Type.Object({
  group: Type.String({ minLength: 1, maxLength: MAX_LENGTHS.group, description: 'The `group` of the variants, percent-encoded.' }),
})
const IfMatchHeader = Type.Object({
  'if-match': Type.Optional(Type.String({ description: "The group's ETag, or `*`. Without it the answer is 428." })),
})
/** All translations and a full description with every character escaped, and 20 images. */
const GROUP_LIMIT_BYTES = 1_048_576

/** Operators' routes for what the variants of a group share. */
export function groupRoutes(server: HttpServer, context: CatalogueContext): void {
  const send = (reply: FastifyReply, { group, etag }: TaggedGroup) => reply.headers({ etag: `"${etag}"` }).send(group)

  defineRoute(
    server,
    'GET /admin/groups/:group',
    {
      access: 'products:write',
      operationId: 'getProductGroup',
      summary: 'What the variants of a group share, and which variants override it',
      description:
        'A variant overrides a member if its value differs from that of the group. A group that was never changed by `PATCH` shares each member that all its variants have, with the value of more than half of them. Send the `ETag` as the `If-Match` of a change.',
      params: GroupParams,
      answers: { 200: [GroupSchema, 'The group.'] },
      refuses: ['group_too_large'],
    },
    async (request, reply) => send(reply, await getGroup(context.pool, request.params.group)),
  )

  defineRoute(
    server,
    'PATCH /admin/groups/:group',
    {
      access: 'products:write',
      bodyLimit: GROUP_LIMIT_BYTES,
      operationId: 'updateProductGroup',
      summary: 'Changes what the variants of a group share, and thereby all variants that do not override it',
      description: `A JSON Merge Patch (RFC 7396): \`null\` empties a member, and attributes and translations are changed one by one. One transaction changes up to ${MAX_VARIANTS} variants. Variants that override a member keep it, and archived variants stay as they are. From the first change on, an empty member of a variant takes the value of the group.`,
      params: GroupParams,
      headers: IfMatchHeader,
      body: GroupPatchBody,
      answers: { 200: [GroupSchema, 'The changed group.'] },
      refuses: ['group_too_large', 'if_match_required'],
    },
    async (request, reply) => {
      const ifMatch = requireIfMatch(request.headers['if-match'], 'group')
      return send(reply, await changeGroup(context, request.params.group, ifMatch, request.body, auditContextOf(request)))
    },
  )
}

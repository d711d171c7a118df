import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { auditContextOf } from '../../activity/record-activity.ts'
import { defineList, defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { IdPosition, PageOf } from '../../http/pagination.ts'
import { KEY_SCOPES } from '../../http/scopes.ts'
import { clientOf, type SecurityEvent } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { EXAMPLE_API_KEY, EXAMPLE_API_KEY_INPUT, EXAMPLE_NEW_API_KEY } from '../examples.ts'
import { strict } from '../schemas.ts'
import { type ApiKey, KEY_NAME_LENGTH, KEY_NAME_PATTERN, listApiKeys } from './api-keys.ts'
import { createApiKey } from './create-api-key.ts'
import { KEY_PATTERN } from './key-text.ts'
import { revokeApiKey } from './revoke-api-key.ts'
import { DEFAULT_OVERLAP_SECONDS, MAX_OVERLAP_SECONDS, rotateApiKey } from './rotate-api-key.ts'

const Time = (description: string) => Type.String({ format: 'date-time', description })
const NullableTime = (description: string) => Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description })
const Scopes = (description: string) =>
  Type.Array(Type.Enum([...KEY_SCOPES]), { minItems: 1, maxItems: KEY_SCOPES.length, uniqueItems: true, description })

const apiKey = {
  id: Type.String({ format: 'uuid', description: "The key's id. Histories contain it, and so does the key's text." }),
  name: Type.String(),
  state: Type.Enum(['active', 'expired', 'revoked'], { title: 'ApiKeyState' }),
  scopes: Type.Array(Type.Enum([...KEY_SCOPES])),
  created_by: Type.Union([Type.String({ format: 'uuid' }), Type.Null()], {
    description: 'The account that made the key. Null if a command made it.',
  }),
  created_at: Time('When the key was made.'),
  expires_at: NullableTime('When the key expires. Null if it never expires.'),
  last_used_at: NullableTime('When the key was last used. Updated at most once a minute.'),
  previous_secret_expires_at: NullableTime('Until when the secret from before the last rotation is also valid.'),
  revoked_at: NullableTime('When it was revoked.'),
  revoked_reason: Type.Union([Type.Enum(['revoked', 'maker_deleted', 'maker_demoted']), Type.Null()], {
    description: '`maker_deleted`: the account that made the key was deleted. `maker_demoted`: that account is no longer an operator.',
  }),
}
const ApiKeySchema = Type.Object(apiKey, { title: 'ApiKey', examples: [EXAMPLE_API_KEY] })
const NewApiKeySchema = Type.Object(
  { ...apiKey, key: Type.String({ description: `The key, for \`Authorization: Bearer\`. It is not shown again. \`${KEY_PATTERN}\`` }) },
  { title: 'NewApiKey', examples: [EXAMPLE_NEW_API_KEY] },
)
const ApiKeyInput = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: KEY_NAME_LENGTH,
      pattern: KEY_NAME_PATTERN,
      'x-must': 'have visible characters only',
      description: 'Names the machine or service. Do not name a person: the name stays when the person leaves.',
    }),
    scopes: Scopes('What the key may do. The caller must have each of these scopes.'),
    expires_at: Type.Optional(NullableTime('A time in the future, within two years. Null, the default: the key does not expire.')),
  },
  { title: 'ApiKeyInput', examples: [EXAMPLE_API_KEY_INPUT], ...strict },
)
const Rotation = Type.Object(
  {
    overlap_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_OVERLAP_SECONDS,
        default: DEFAULT_OVERLAP_SECONDS,
        description: 'How many seconds the current secret stays valid. With 0 it ends at once.',
      }),
    ),
  },
  { title: 'ApiKeyRotation', examples: [{ overlap_seconds: 3_600 }], default: {}, ...strict },
)
/** Revocations have no properties yet. Unknown ones are refused, not dropped. */
const Revocation = Type.Object({}, { title: 'ApiKeyRevocation', examples: [{}], default: {}, ...strict })
const Params = Type.Object({ id: Type.String({ format: 'uuid' }) })

/** Routes for API keys. No key has their scope, so keys cannot call them. */
export function apiKeyRoutes(server: HttpServer, { pool, liveKeys, now }: AuthContext): void {
  async function onChanged(request: FastifyRequest, event: SecurityEvent, keyId: string): Promise<void> {
    await liveKeys.refresh()
    clientOf(request).record(event, { user_id: auditContextOf(request).actor.id ?? '', key_id: keyId })
  }

  defineRoute(
    server,
    'POST /admin/api-keys',
    {
      access: 'access:write',
      stepUp: true,
      operationId: 'createApiKey',
      summary: 'Makes a key for a machine, and shows it once',
      description:
        'Send the key as `Authorization: Bearer`. It may make the calls of its scopes, as long as its maker has these scopes, too. Calls such as `GET /me` are refused. ' +
        'Changes that the key makes name it as actor: `{"type": "key", "id": …}`.',
      body: ApiKeyInput,
      answers: { 201: [NewApiKeySchema, 'The key, with its text.'] },
      refuses: ['too_many_api_keys'],
    },
    async (request) => {
      const { name, scopes, expires_at: expiresAt = null } = request.body
      const auditContext = auditContextOf(request)
      const input = { name, scopes, expiresAt: expiresAt === null ? null : new Date(expiresAt) }
      const { key, ...made } = await createApiKey(pool, input, { auditContext, now: now() })
      await onChanged(request, 'api_key_created', made.id)
      return { ...presentApiKey(made), key }
    },
  )

  defineList(
    server,
    'GET /admin/api-keys',
    {
      access: 'access:write',
      operationId: 'listApiKeys',
      summary: 'The keys, newest first, in pages',
      description:
        'Includes keys that have expired or were revoked, because histories name them. Pages: follow `next_cursor` until `has_more` is false.',
      page: PageOf(ApiKeySchema),
      answer: 'A page of the keys.',
      position: IdPosition,
    },
    async (_request, { limit, after, page }) =>
      page(await listApiKeys(pool, { after: after?.[0], limit: limit + 1 }, now()), presentApiKey, ({ id }) => [id]),
  )

  defineRoute(
    server,
    'POST /admin/api-keys/:id/rotate',
    {
      access: 'access:write',
      stepUp: true,
      operationId: 'rotateApiKey',
      summary: 'Gives a key another secret, and shows it once',
      description:
        'The current secret stays valid for `overlap_seconds` (a day by default), so that machines can switch one after the other. A secret that an ' +
        'earlier rotation replaced ends now. Scopes and expiry stay. Only the operator who made the key can rotate it here. `storefront keys rotate` rotates keys that a command made.',
      params: Params,
      body: Rotation,
      answers: { 200: [NewApiKeySchema, 'The key, with its new text.'] },
      refuses: ['api_key_ended'],
    },
    async (request) => {
      const { overlap_seconds: overlapSeconds = DEFAULT_OVERLAP_SECONDS } = request.body
      const auditContext = auditContextOf(request)
      const { key, ...rotated } = await rotateApiKey(pool, request.params.id, overlapSeconds, { auditContext, now: now() })
      await onChanged(request, 'api_key_rotated', rotated.id)
      return { ...presentApiKey(rotated), key }
    },
  )

  defineRoute(
    server,
    'POST /admin/api-keys/:id/revoke',
    {
      access: 'access:write',
      stepUp: true,
      operationId: 'revokeApiKey',
      summary: 'Ends a key permanently',
      description: 'Every process of the API refuses the key within a second. Repeating the call changes nothing.',
      params: Params,
      body: Revocation,
      answers: { 200: [ApiKeySchema, 'The revoked key.'] },
    },
    async (request) => {
      const auditContext = auditContextOf(request)
      const revoked = await revokeApiKey(pool, request.params.id, { auditContext, now: now() })
      await onChanged(request, 'api_key_revoked', revoked.id)
      return presentApiKey(revoked)
    },
  )
}

function presentApiKey({ previous_expires_at, ...key }: ApiKey) {
  const time = (at: Date | null) => at?.toISOString() ?? null
  return {
    ...key,
    scopes: key.scopes as Exclude<(typeof key.scopes)[number], 'access:write'>[],
    created_at: key.created_at.toISOString(),
    expires_at: time(key.expires_at),
    last_used_at: time(key.last_used_at),
    previous_secret_expires_at: time(previous_expires_at),
    revoked_at: time(key.revoked_at),
    revoked_reason: key.revoked_reason as 'revoked' | 'maker_deleted' | 'maker_demoted' | null,
  }
}

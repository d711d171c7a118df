import { Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { AppError, notFound } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { recordBounce } from '../mail/record-bounce.ts'
import { isSignedWebhook } from '../webhooks/webhook-signature.ts'

const EXAMPLE_MAIL_EVENT = {
  type: 'mail.bounced',
  data: { message_id: '<01997a60-2b33-7e45-a1c8-6d0e9f7b3a55.1@store.example>', reason: '550 5.1.1 no such mailbox' },
}
const MailEventSchema = Type.Object(
  {
    type: Type.String({
      minLength: 1,
      maxLength: 100,
      description: '`mail.bounced` or `mail.complained`. Others are accepted and ignored.',
    }),
    data: Type.Object({
      message_id: Type.String({ minLength: 1, maxLength: 998, description: 'The `Message-ID` of the mail, or its `X-Storefront-Event`.' }),
      reason: Type.Optional(Type.String({ maxLength: 2_000, description: 'Why it came back, such as the answer of the mail server.' })),
    }),
  },
  { title: 'MailEvent', examples: [EXAMPLE_MAIL_EVENT] },
)
const RECORDED: Readonly<Record<string, string>> = {
  'mail.bounced': 'the mail came back',
  'mail.complained': 'the customer reported the mail as spam',
}

export interface MailEventRoutesOptions {
  pool: Pool
  /** Signs the calls; null: there are none. */
  secret: string | null
  now: () => Date
}

/** The call by which a mail provider, or a program that translates its reports, names mails that came back. */
export function mailEventRoutes(server: HttpServer, { pool, secret, now }: MailEventRoutesOptions): void {
  defineRoute(
    server,
    'POST /mail-events',
    {
      access: 'public',
      cost: 'change',
      isSigned: true,
      operationId: 'reportMailEvent',
      summary: 'Reports that a mail came back',
      description:
        'Signed with `MAIL_EVENTS_SECRET` after Standard Webhooks 1.0.0: `webhook-id`, `webhook-timestamp` of the last five minutes, and ' +
        "`webhook-signature`. The order's timeline and `GET /admin/mails?undelivered=true` show the mail. It may be repeated: the first report counts.",
      body: MailEventSchema,
      answers: { 204: 'It is recorded, or of no interest.' },
      refuses: ['invalid_signature', 'not_found'],
    },
    async ({ headers, signedBody, body: { type, data } }) => {
      if (secret === null) throw notFound('receiver of mail events')
      if (!isSignedWebhook(secret, headers, signedBody ?? '', now()))
        throw new AppError('invalid_signature', 'The signature does not fit the body and the secret, or is more than five minutes old.')
      const usual = RECORDED[type]
      if (usual !== undefined) await recordBounce(pool, { messageId: data.message_id, reason: data.reason ?? usual })
      return null
    },
  )
}

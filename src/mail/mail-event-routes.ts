import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Pool } from '../db/pool.ts'
import { AppError, notFound } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { invalidBody } from '../http/problem.ts'
import { recordMailReport } from './record-mail-report.ts'

const EXAMPLE_MAIL_EVENT = {
  type: 'mail.bounced',
  data: { message_id: '<01997a60-2b33-7e45-a1c8-6d0e9f7b3a55.1@store.example>', reason: '550 5.1.1 no such mailbox' },
}
const MailReportSchema = Type.Object({
  type: Type.Enum(['mail.bounced', 'mail.complained'], { description: '`mail.complained`: the customer reported the mail as spam.' }),
  data: Type.Object({
    message_id: Type.String({ minLength: 1, maxLength: 998, description: 'The `Message-ID` of the mail, or its `X-Storefront-Event`.' }),
    reason: Type.Optional(Type.String({ description: 'Why the mail came back, such as the answer of the mail server.' })),
  }),
})
const MailEventSchema = Type.Union(
  [MailReportSchema, Type.Object({ type: Type.String({ description: 'Other types are accepted and ignored, with any `data`.' }) })],
  { title: 'MailEvent', examples: [EXAMPLE_MAIL_EVENT] },
)
const REPORTS: readonly string[] = MailReportSchema.properties.type.enum

export interface MailEventRoutesOptions {
  pool: Pool
  /** Whether the provider has signed the call. Null if the store accepts no calls. */
  isSigned: ((headers: Readonly<Record<string, unknown>>, body: string) => boolean) | null
}

/**
 * The route by which a mail provider, or a program that translates its reports, reports bounced mails and spam
 * complaints.
 */
export function mailEventRoutes(server: HttpServer, { pool, isSigned }: MailEventRoutesOptions): void {
  defineRoute(
    server,
    'POST /mail-events',
    {
      access: 'public',
      cost: 'change',
      isSigned: true,
      operationId: 'reportMailEvent',
      summary: 'Reports that a mail came back, or that its customer called it spam',
      description:
        'Sign the request with `MAIL_EVENTS_SECRET` (Standard Webhooks 1.0.0): it needs `webhook-id`, a `webhook-timestamp` of the last five minutes, and ' +
        "`webhook-signature`. The order's timeline shows the report, and `GET /admin/mails?undelivered=true` lists the mails that came back. A report may be repeated: only the first one of each type counts.",
      body: MailEventSchema,
      answers: { 204: 'The report was recorded, or ignored because the store does not use its type.' },
      refuses: ['invalid_signature', 'not_found'],
    },
    async ({ headers, signedBody, body }) => {
      if (isSigned === null) throw notFound('receiver of mail events')
      if (!isSigned(headers, signedBody ?? ''))
        throw new AppError(
          'invalid_signature',
          'The signature does not match the body and the secret, or its timestamp is not of the last five minutes.',
        )
      if (Value.Check(MailReportSchema, body)) {
        const { message_id: messageId, reason = 'the mail came back' } = body.data
        const isKnown = await recordMailReport(pool, { type: body.type, messageId, reason })
        if (!isKnown)
          server.log.warn(
            { type: body.type, message: messageId },
            'the mail provider reports a mail about no order: its log has the address',
          )
      } else if (REPORTS.includes(body.type)) {
        throw invalidBody('#/data', 'must have a message_id, and may have a reason', 'The report names no mail.')
      }
      return null
    },
  )
}

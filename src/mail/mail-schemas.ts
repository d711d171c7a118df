import { Type } from 'typebox'
import { EmailFilter, Instant } from '../http/pagination.ts'
import { LANGUAGES } from '../language.ts'
import { UUID_PATTERN } from '../orders/event-defects.ts'
import { COPY_PATTERN } from './copy-id.ts'
import { ORDER_MAIL_KINDS } from './mail-kinds.ts'

/** Example bodies for the OpenAPI document. A test checks each one against its schema. */

const ORDER_ID = '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55'

const EXAMPLE_MAIL_SUMMARY = {
  event_id: `${ORDER_ID}.1`,
  copy_of: null,
  order_id: ORDER_ID,
  order_number: '100042',
  kind: 'created',
  to: 'ada@example.com',
  status: 'sent',
  attempts: 1,
  queued_at: '2026-03-04T18:05:00.020Z',
  send_after: '2026-03-04T18:05:00.020Z',
  next_attempt_at: null,
  sent_at: '2026-03-04T18:05:00.310Z',
  failed_at: null,
  last_error: null,
  bounced_at: null,
  bounce_reason: null,
  complained_at: null,
}

const EXAMPLE_RENDERED_MAIL = {
  subject: 'We have received your order 100042',
  text: 'Hello Ada Lovelace,\n\nWe have received your order 100042 and will confirm it soon.\n',
  html: '<!doctype html>\n<html lang="en"><body><p>Hello Ada Lovelace,</p></body></html>\n',
}

const EXAMPLE_MAIL = { ...EXAMPLE_MAIL_SUMMARY, rendered: EXAMPLE_RENDERED_MAIL }
const EXAMPLE_MAIL_RETRY = { queued: 3, has_more: false }
const EXAMPLE_MAIL_TEMPLATE = { name: 'created', kind: 'order', language: 'en', locale: 'en', source: 'built_in', own_files: [] }
const EXAMPLE_MAIL_TEMPLATE_LIST = { data: [EXAMPLE_MAIL_TEMPLATE] }
const EXAMPLE_MAIL_TEMPLATE_PREVIEW = { ...EXAMPLE_MAIL_TEMPLATE, rendered: EXAMPLE_RENDERED_MAIL }

const Time = (description: string) => Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description })
const MailStatus = (description: string) => Type.Enum(['queued', 'sent', 'failed'], { title: 'MailStatus', description })

export const MailQuery = Type.Object({
  status: Type.Optional(MailStatus('Only mails with this status.')),
  order: Type.Optional(
    Type.String({
      pattern: `^([0-9]{1,18}|${UUID_PATTERN})$`,
      'x-input': 'code',
      'x-must': 'be the id or the number of an order',
      description: 'Only mails about the order with this id or number.',
    }),
  ),
  email: Type.Optional(EmailFilter('Only mails to the account with this address.')),
  undelivered: Type.Optional(
    Type.Literal(true, {
      description: 'Only mails that did not reach the customer: they failed or came back, and no later copy was accepted.',
    }),
  ),
  from: Instant('Only mails queued at this time or later. RFC 3339.'),
  to: Instant('Only mails queued before this time. RFC 3339.'),
})

export const MailParams = Type.Object({
  event_id: Type.String({
    pattern: `^${UUID_PATTERN}\\.[1-9][0-9]{0,9}(${COPY_PATTERN}|\\.former)?$`,
    'x-must': 'be the id of an order and a version, such as 0193a5c0-7e3b-7c54-9a1e-2f6d8b4c1a90.2',
    description:
      'The event that the mail is about: `<order id>.<version>`. A copy ends in `.copy1` to `.copy5`, and the notice to a former address in `.former`.',
  }),
})

export const MailSummarySchema = Type.Object(
  {
    event_id: Type.String({
      description:
        'The event that the mail is about: `<order id>.<version>`. Each has one mail; copies of it have `.copy1` to `.copy5` at the end, ' +
        'and the notice to a former e-mail address has `.former`.',
    }),
    copy_of: Type.Union([Type.String(), Type.Null()], { description: 'The mail of which this one is a copy. Null if this is no copy.' }),
    order_id: Type.String({ format: 'uuid' }),
    order_number: Type.Union([Type.String(), Type.Null()], { description: 'Null when the order is no longer in the database.' }),
    kind: Type.Enum([...ORDER_MAIL_KINDS], { description: 'What the mail reports, and the name of its template.' }),
    to: Type.Union([Type.String(), Type.Null()], {
      description: 'The address that the mail goes to, or would go to now. Null if the account was deleted.',
    }),
    status: MailStatus('`failed` is final until an operator retries the mail.'),
    attempts: Type.Integer({ description: 'Attempts since the mail was queued, or queued again.' }),
    queued_at: Type.String({ format: 'date-time' }),
    send_after: Time('The mail is not sent before this time, because of the hourly limit of its account.'),
    next_attempt_at: Time('When the next attempt is made. Null if it is due at once, or if there will be none.'),
    sent_at: Time('When the mail server accepted the mail. Null if it has not yet.'),
    failed_at: Time('When the mail last failed permanently, also if it was queued again since. Null if it never did.'),
    last_error: Type.Union([Type.String(), Type.Null()], {
      description: 'Why the last attempt failed, such as the answer of the mail server.',
    }),
    bounced_at: Time('When the mail provider reported that the mail came back. Null if it has not.'),
    bounce_reason: Type.Union([Type.String(), Type.Null()], { description: 'Why the mail came back, without addresses.' }),
    complained_at: Time('When the mail provider reported that the customer called the mail spam. It is then not sent again. Null if not.'),
  },
  { title: 'MailSummary', examples: [EXAMPLE_MAIL_SUMMARY] },
)

const RenderedMailSchema = Type.Object(
  {
    subject: Type.String(),
    text: Type.String(),
    html: Type.String({ description: 'Show it without scripts: a template of the shop may contain any HTML.' }),
  },
  { title: 'RenderedMail', examples: [EXAMPLE_RENDERED_MAIL] },
)

export const MailSchema = Type.Object(
  {
    ...MailSummarySchema.properties,
    rendered: Type.Union([RenderedMailSchema, Type.Null()], {
      description:
        'The content that is sent, or was sent. Null if it can no longer be known: the account was deleted, or the mail was sent and its order is no ' +
        'longer in the database with its whole history. Also null if this process cannot use the mail templates.',
    }),
  },
  { title: 'Mail', examples: [EXAMPLE_MAIL] },
)

export const MailRetrySchema = Type.Object(
  {
    queued: Type.Integer({ description: 'The number of mails that this call has queued again.' }),
    has_more: Type.Boolean({ description: 'Whether more failed mails are left. If so, repeat the call.' }),
  },
  { title: 'MailRetry', examples: [EXAMPLE_MAIL_RETRY] },
)

const MailTemplateSchema = Type.Object(
  {
    name: Type.String(),
    kind: Type.Enum(['order', 'account'], { description: 'What the mail is about.' }),
    language: Type.Enum([...LANGUAGES], { description: "In a preview the requested language, otherwise the store's." }),
    locale: Type.Union([Type.String(), Type.Null()], {
      description: 'The locale of the amounts in the mail. In a preview: the requested one. Null if the mail contains no amounts.',
    }),
    source: Type.Enum(['built_in', 'shop'], { description: '`shop`: at least one of its files is from `MAIL_TEMPLATES`.' }),
    own_files: Type.Array(Type.String(), {
      description: 'The files from `MAIL_TEMPLATES` for this template in every language, including parts that several mails share.',
    }),
  },
  { title: 'MailTemplate', examples: [EXAMPLE_MAIL_TEMPLATE] },
)

export const MailTemplateListSchema = Type.Object(
  { data: Type.Array(MailTemplateSchema) },
  { title: 'MailTemplateList', examples: [EXAMPLE_MAIL_TEMPLATE_LIST] },
)

export const MailTemplateParams = Type.Object({
  name: Type.String({
    pattern: '^[a-z_]{1,40}$',
    'x-must': 'be the name of a template, such as created',
    description: 'The name of the template, such as `created`.',
  }),
})

export const MailTemplateQuery = Type.Object(
  {
    language: Type.Optional(Type.Enum([...LANGUAGES], { description: "The language of the mail. By default the store's language." })),
    locale: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 35,
        description: 'The locale of the amounts (BCP 47), such as `de-AT`. By default the usual one of the language.',
      }),
    ),
  },
  { additionalProperties: false },
)

export const MailTemplatePreviewSchema = Type.Object(
  { ...MailTemplateSchema.properties, rendered: RenderedMailSchema },
  { title: 'MailTemplatePreview', examples: [EXAMPLE_MAIL_TEMPLATE_PREVIEW] },
)

import { findLocale } from '../../client/src/currency.ts'
import { AppError, notFound } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import type { Language } from '../language.ts'
import { MailTemplateListSchema, MailTemplateParams, MailTemplatePreviewSchema, MailTemplateQuery } from './mail-schemas.ts'
import type { MailTemplate, MailTemplates } from './mail-templates.ts'

/** Registers the operators' routes for mail templates. `templates` is null if this process cannot use them. */
export function mailTemplateRoutes(server: HttpServer, { templates }: { templates: MailTemplates | null }): void {
  defineRoute(
    server,
    'GET /admin/mail-templates',
    {
      access: 'mails:read',
      operationId: 'listMailTemplates',
      summary: 'The templates of mails, and which of them the shop has replaced',
      description: 'The templates that this process read when it started. A changed file is used only after a restart, also for mails.',
      answers: { 200: [MailTemplateListSchema, 'Every template.'] },
    },
    async () => {
      const { list, languages } = assertUsable(templates)
      const { defaultLanguage, localeOf } = languages
      const data = list.map((template) => presentTemplate(template, defaultLanguage, localeOf(defaultLanguage)))
      return { data }
    },
  )

  defineRoute(
    server,
    'GET /admin/mail-templates/:name',
    {
      access: 'mails:read',
      operationId: 'previewMailTemplate',
      summary: 'A mail made from a template',
      description:
        "A sample mail for an invented order or account, made by the same code as the store's mails. `locale` " +
        'formats the amounts for another locale.',
      params: MailTemplateParams,
      query: MailTemplateQuery,
      answers: { 200: [MailTemplatePreviewSchema, 'The mail.'] },
    },
    async (request) => {
      const { list, preview, languages } = assertUsable(templates)
      const template = list.find(({ name }) => name === request.params.name)
      if (template === undefined) throw notFound('mail template')
      const { language = languages.defaultLanguage } = request.query
      const locale = readLocale(request.query.locale) ?? languages.localeOf(language)
      const rendered = preview(template.name, language, locale)
      if (rendered === null) throw notFound('mail template')
      return { ...presentTemplate(template, language, locale), rendered }
    },
  )
}

function assertUsable(templates: MailTemplates | null): MailTemplates {
  if (templates !== null) return templates
  throw new AppError('unavailable', 'This process cannot use the mail templates. Its log has the reason.')
}

function presentTemplate({ name, kind, hasAmounts, ownFiles }: MailTemplate, language: Language, locale: string) {
  const source = ownFiles.length === 0 ? ('built_in' as const) : ('shop' as const)
  return { name, kind, language, locale: hasAmounts ? locale : null, source, own_files: ownFiles }
}

function readLocale(tag: string | undefined): string | undefined {
  if (tag === undefined) return undefined
  const locale = findLocale(tag)
  if (locale !== null) return locale
  throw new AppError('invalid_query', 'A query parameter is not valid.', {
    errors: [{ parameter: 'locale', detail: 'is not the tag of a known language, such as de-AT' }],
  })
}

import type { Language } from '../language.ts'
import { ACCOUNT_MAIL_GROUP, type AccountMailPages, createAccountMailRenderer, type RenderAccountMail } from './account-mail.ts'
import { EXAMPLE_CUSTOMER, exampleAccountMailValues, exampleMailContent } from './example-mail.ts'
import { ACCOUNT_MAIL_KINDS, hasAmounts, ORDER_MAIL_KINDS } from './mail-kinds.ts'
import type { MailLanguages } from './mail-languages.ts'
import { createMailRenderer, isOrderMailKind, ORDER_MAIL_GROUP, type OrderMailPages, type RenderMail } from './render-mail.ts'
import { createTemplateReader, type RenderedMail, type ShopInMails } from './templates.ts'

/** A mail template, which is a pair of files for text and HTML. */
export interface MailTemplate {
  name: string
  kind: 'order' | 'account'
  hasAmounts: boolean
  /**
   * The shop's own files that this template uses in any language, including the parts that it may include. Empty for a
   * built-in template.
   */
  ownFiles: string[]
}

/** The store's mail templates as this process has read them. */
export interface MailTemplates {
  render: RenderMail
  renderAccountMail: RenderAccountMail
  list: readonly MailTemplate[]
  languages: MailLanguages
  /** Renders the mail for an invented order or account. Null if no template has this name. */
  preview(name: string, language?: Language, locale?: string): RenderedMail | null
}

export interface MailTemplatesOptions extends AccountMailPages, OrderMailPages {
  /** The folder of the shop's own templates. Null for none. */
  directory: string | null
  shop: ShopInMails
  languages: MailLanguages
  /** The currency of the invented order. */
  currency: string
}

/** Reads all templates once. Throws TemplateError. */
export function readMailTemplates({ directory, shop, languages, currency, ...pages }: MailTemplatesOptions): MailTemplates {
  const templates = createTemplateReader(directory, shop)
  const render = createMailRenderer(pages, templates, languages)
  const renderAccountMail = createAccountMailRenderer(pages, templates, languages)
  const list: MailTemplate[] = [
    ...ORDER_MAIL_KINDS.map((name) => ({
      ...{ name, kind: 'order' as const, hasAmounts: hasAmounts(name) },
      ownFiles: templates.ownFilesOf(ORDER_MAIL_GROUP, name),
    })),
    ...ACCOUNT_MAIL_KINDS.map((name) => ({
      ...{ name, kind: 'account' as const, hasAmounts: name === 'staff_orders' },
      ownFiles: templates.ownFilesOf(ACCOUNT_MAIL_GROUP, name),
    })),
  ]
  return {
    render,
    renderAccountMail,
    list,
    languages,
    preview(name, language, locale) {
      if (isOrderMailKind(name)) return render(exampleMailContent(name, currency), EXAMPLE_CUSTOMER, language, locale)
      const account = ACCOUNT_MAIL_KINDS.find((kind) => kind === name)
      return account === undefined ? null : renderAccountMail(account, exampleAccountMailValues(account, currency), language, locale)
    },
  }
}

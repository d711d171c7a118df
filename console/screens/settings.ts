import { addressOf } from '../kit/address.ts'
import type { Scope } from '../kit/api.ts'
import { type Content, html, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { apiKeys } from './api-keys.ts'
import { mailTemplates } from './mail-templates.ts'
import { operators } from './operators.ts'
import type { Place } from './search.ts'
import { webhooks } from './webhooks.ts'

interface Section {
  name: string
  title: string
  scope: Scope
  open(context: ScreenContext): () => Content
}

const SECTIONS: readonly Section[] = [
  { name: 'operators', title: t`Operators`, scope: 'access:write', open: operators },
  { name: 'keys', title: t`API keys`, scope: 'access:write', open: apiKeys },
  { name: 'webhooks', title: t`Webhooks`, scope: 'webhooks:read', open: webhooks },
  { name: 'templates', title: t`Mail templates`, scope: 'mails:read', open: mailTemplates },
]

/** `#settings?section=NAME`: what the shop sets up once. A role sees the sections for which it has the scope. */
export const settings: Screen = {
  title: t`Settings`,
  scopes: SECTIONS.map(({ scope }) => scope),
  open(context) {
    const listed = SECTIONS.filter(({ scope }) => context.may(scope))
    const shown = listed.find(({ name }) => name === context.parameters.get('section')) ?? listed[0]
    if (shown === undefined) return () => nothing
    context.title(shown.title)
    const content = shown.open(context)
    const tabs = html`<nav class="tabs" aria-label="Settings">${listed.map(
      ({ name, title }) =>
        html`<a href=${addressOf('settings', { section: name })} aria-current=${name === shown.name ? 'page' : nothing}>${title}</a>`,
    )}</nav>`
    return () => html`${tabs}${content()}`
  },
}

export function settingsPlaces(may: ScreenContext['may']): Place[] {
  return SECTIONS.filter(({ scope }) => may(scope)).map(({ name, title }) => ({ title, href: addressOf('settings', { section: name }) }))
}

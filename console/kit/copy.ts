import { type Content, html } from './html.ts'
import { capitalized, t } from './language.ts'
import type { ScreenContext } from './screen.ts'

/** A button that copies a text. `what` names the text, such as "the address". */
export function copyButton(text: string, what: string, { act, tell }: Pick<ScreenContext, 'act' | 'tell'>): Content {
  const copy = async () => {
    // A page without TLS has no clipboard.
    if (navigator.clipboard === undefined) throw new Error(t`The browser does not let this page copy. Select the text instead.`)
    await navigator.clipboard.writeText(text)
    tell(capitalized(t`${what} is copied.`))
  }
  return html`<button type="button" class="copy" aria-label="Copy ${what}" title="Copy ${what}" @click=${act(copy)}>Copy</button>`
}

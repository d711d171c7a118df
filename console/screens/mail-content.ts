import type { Schemas } from '../kit/api.ts'
import { type Content, html, note } from '../kit/html.ts'
import { t } from '../kit/language.ts'

/** Makes the mail's links do nothing: they would open in a new tab, which the frame may not. */
const INERT_LINKS = '<base target="_blank">'
/**
 * Blocks images from other servers, since a mail's template may count who opens it. The page itself allows them for
 * products.
 */
const NO_PICTURES = `<!doctype html><meta http-equiv="content-security-policy" content="img-src data:">`

/** The text of a mail, and its HTML in a frame that runs no scripts and loads nothing from other servers. */
export function mailContent(rendered: Schemas['RenderedMail'] | null): Content {
  if (rendered === null) {
    const reasons = t`the account was deleted, its order is gone, or this process of the store cannot use the mail templates`
    return note(t`The content of this mail is not known any more: ${reasons}.`)
  }
  // An empty sandbox forbids scripts, forms and windows. The page's own policy applies, too.
  return html`<div class="mail-content">
    <iframe title="HTML of the mail" referrerpolicy="no-referrer" sandbox="" .srcdoc=${NO_PICTURES + rendered.html + INERT_LINKS}></iframe>
    <details><summary>As text</summary><pre tabindex="0" role="region" aria-label="Text of the mail">${rendered.text}</pre></details>
  </div>`
}

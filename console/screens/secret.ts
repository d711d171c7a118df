import { type Content, card, html, note, nothing, ref } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'

interface Secret {
  /** The id of the key or endpoint that has the secret. */
  id: string
  /** The word for it: `key` or `secret`. */
  what: string
  heading: string
  hint: string
  text: string
}

export interface ShownSecret {
  (): Content
  /** Shows a secret, and focuses it when the dialog that created it has closed. */
  show(secret: Secret): void
  /** Hides the secret if it belongs to this id. */
  hide(id: string): void
}

/** Shows a new secret. The store cannot show it again, so it is lost when this view ends. */
export function shownSecret({ tell, act, update, keep }: Pick<ScreenContext, 'tell' | 'act' | 'update' | 'keep'>): ShownSecret {
  let shown: Secret | null = null
  let place: HTMLElement | undefined
  let code: HTMLElement | undefined

  keep(() => (shown === null ? '' : t`The ${shown.what} is shown only once.`))
  const set = (next: Secret | null) => {
    shown = next
    update()
  }
  const copy = async ({ what, text }: Secret) => {
    try {
      // A page without TLS has no clipboard.
      await navigator.clipboard.writeText(text)
      tell(t`The ${what} is copied.`)
    } catch {
      if (code !== undefined) getSelection()?.selectAllChildren(code)
      tell(t`The browser does not let this page copy. The ${what} is selected: press Ctrl+C, or ⌘C.`)
    }
  }
  const content = (secret: Secret) =>
    card(
      secret.heading,
      html`${note(secret.hint)}
        <p><code class="secret" ${ref((element) => {
          code = element as HTMLElement | undefined
        })}>${secret.text}</code></p>
        <div class="actions">
          <button type="button" class="primary" @click=${act(() => copy(secret))}>Copy the ${secret.what}</button>
          <button type="button" @click=${() => set(null)}>I have stored it</button>
        </div>`,
    )
  const view = () =>
    html`<div role="status" tabindex="-1" ${ref((element) => {
      place = element as HTMLElement | undefined
    })}>${shown === null ? nothing : content(shown)}</div>`
  return Object.assign(view, {
    show(secret: Secret) {
      set(secret)
      // A closed dialog returns the focus to its button. The secret, which is shown only once, then takes it.
      setTimeout(() => place?.focus())
    },
    hide(id: string) {
      if (shown?.id === id) set(null)
    },
  })
}

import { type Content, card, html, note, nothing, ref } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'

interface Secret {
  /** The key or endpoint that has it. */
  id: string
  /** `key` or `secret`. */
  what: string
  heading: string
  hint: string
  text: string
}

export interface ShownSecret {
  (): Content
  /** Shows a secret, and moves the focus to it when the dialog that asked for it has closed. */
  show(secret: Secret): void
  /** Takes the secret away if it is that of this id. */
  hide(id: string): void
}

/** The place where a new secret is shown. The store cannot show it again: it is gone with this view. */
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
      // Pages without TLS have no clipboard.
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
      // A closed dialog returns the focus to the button that opened it; what is shown once is more important.
      setTimeout(() => place?.focus())
    },
    hide(id: string) {
      if (shown?.id === id) set(null)
    },
  })
}

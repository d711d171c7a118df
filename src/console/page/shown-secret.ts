import { actions, button, create, note, replaceChildren } from './dom.ts'
import type { ScreenContext } from './screen.ts'

export interface Secret {
  /** The key or endpoint that has it. */
  id: string
  /** `key` or `secret`. */
  what: string
  heading: string
  hint: string
  text: string
}

export interface ShownSecret {
  element: HTMLElement
  /** Shows a secret, and moves the focus to it when the dialog of the control is closed. */
  show(secret: Secret, control: HTMLElement): void
  /** Takes the secret away if it is that of this id. */
  hide(id: string): void
}

/** The place where a new secret is shown. The store cannot show it again: it is gone with this view. */
export function shownSecret({ tell }: Pick<ScreenContext, 'tell'>): ShownSecret {
  const element = create('div', { attributes: { role: 'status' } })
  let shown: string | null = null

  function clear(): void {
    shown = null
    replaceChildren(element)
  }

  async function copy(what: string, text: string, code: HTMLElement): Promise<void> {
    try {
      // Pages without TLS have no clipboard.
      if (navigator.clipboard === undefined) throw new Error('no clipboard')
      await navigator.clipboard.writeText(text)
      tell(`The ${what} is copied.`)
    } catch {
      getSelection()?.selectAllChildren(code)
      tell(`The browser does not let this page copy. The ${what} is selected: press Ctrl+C, or ⌘C.`)
    }
  }

  return {
    element,
    hide: (id) => {
      if (shown === id) clear()
    },
    show({ id, what, heading, hint, text }, control) {
      shown = id
      const title = create('h3', { tabIndex: -1 }, heading)
      const code = create('code', { class: 'key' }, text)
      replaceChildren(
        element,
        create(
          'section',
          { class: 'card' },
          title,
          note(hint),
          create('p', {}, code),
          actions(
            button(`Copy the ${what}`, () => copy(what, text, code)),
            button('I have stored it', clear),
          ),
        ),
      )
      // A closed dialog returns the focus to the button that opened it; what is shown once is more important.
      control.closest('dialog')?.addEventListener('close', () => title.focus())
    },
  }
}

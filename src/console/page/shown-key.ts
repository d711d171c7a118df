import type { Schemas } from './api.ts'
import { button, create, note, replaceChildren } from './dom.ts'
import type { ScreenContext } from './screen.ts'

interface ShownKey {
  element: HTMLElement
  /** Shows the text of a key, and returns what gets the focus. */
  show(key: Schemas['NewApiKey']): HTMLElement
  /** Takes the text away if it is that of this key. */
  hide(id: string): void
}

/** The place where the text of a new or rotated key is shown. The store does not have it: it is gone with this view. */
export function shownKey({ tell }: Pick<ScreenContext, 'tell'>): ShownKey {
  const element = create('div', { attributes: { role: 'status' } })
  let shown: string | null = null

  function clear(): void {
    shown = null
    replaceChildren(element)
  }

  async function copy(text: string, code: HTMLElement): Promise<void> {
    try {
      // Pages without TLS have no clipboard.
      if (navigator.clipboard === undefined) throw new Error('no clipboard')
      await navigator.clipboard.writeText(text)
      tell('The key is copied.')
    } catch {
      getSelection()?.selectAllChildren(code)
      tell('The browser does not let this page copy. The key is selected: press Ctrl+C, or ⌘C.')
    }
  }

  return {
    element,
    hide: (id) => {
      if (shown === id) clear()
    },
    show({ id, name, key }) {
      shown = id
      const heading = create('h3', { tabIndex: -1 }, `The key ${name}`)
      const code = create('code', { class: 'key' }, key)
      replaceChildren(
        element,
        create(
          'section',
          { class: 'card' },
          heading,
          note('It is shown this once, and the store keeps only a hash. Put it where the machine reads it.'),
          create('p', {}, code),
          create(
            'div',
            { class: 'actions' },
            button('Copy the key', () => copy(key, code)),
            button('I have stored it', clear),
          ),
        ),
      )
      return heading
    },
  }
}

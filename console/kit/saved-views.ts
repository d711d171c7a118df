import { addressOf } from './address.ts'
import { openFormDialog } from './dialog.ts'
import { entered, field } from './form.ts'
import { type Content, html, nothing } from './html.ts'
import { t } from './language.ts'
import type { ScreenContext } from './screen.ts'

interface View {
  name: string
  filters: Readonly<Record<string, string>>
}

/** The sets of filters that an operator has named. This browser stores them. */
export function savedViews(screen: string, { userId, signal, update }: ScreenContext) {
  const key = `storefront.views.${screen}.${userId}`
  let views = read(key)
  const set = (next: readonly View[]) => {
    views = next
    localStorage.setItem(key, JSON.stringify(next))
    update()
  }
  const text = ({ filters }: View) => JSON.stringify(Object.entries(filters).sort())
  const ask = (filters: View['filters']) =>
    openFormDialog(
      {
        title: t`Save view`,
        signal,
        onSubmit: async (data) => {
          const { name = '' } = entered(data)
          set([...views.filter((view) => view.name !== name), { name, filters }])
        },
      },
      () => () => field(t`Name`, html`<input name="name" maxlength="50" required autocomplete="off">`, t`Kept in this browser only.`),
    )
  const remove = (view: View) => set(views.filter((each) => each !== view))

  return {
    /** Links to the saved views, for a row of tabs. */
    tabs: (given: View['filters']): Content =>
      views.map((view) => {
        const isCurrent = text(view) === text({ name: '', filters: given })
        return html`<a href=${addressOf(screen, view.filters)} aria-current=${isCurrent ? 'true' : nothing}>${view.name}</a>`
      }),
    /** A button that saves the filters of the address, or forgets the view with the same filters. */
    button(given: View['filters']): Content {
      const same = views.find((view) => text(view) === text({ name: '', filters: given }))
      if (same !== undefined) return html`<button type="button" @click=${() => remove(same)}>Remove view</button>`
      return Object.keys(given).length === 0 ? nothing : html`<button type="button" @click=${() => ask(given)}>Save view…</button>`
    },
  }
}

/** Returns an empty list when the browser stores nothing for this page. */
function read(key: string): readonly View[] {
  try {
    return JSON.parse(localStorage.getItem(key) ?? '[]')
  } catch {
    return []
  }
}

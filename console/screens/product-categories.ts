import { api, read, type Schemas } from '../kit/api.ts'
import { type Content, html, note, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { cell, createRows } from '../kit/rows.ts'
import type { ScreenContext } from '../kit/screen.ts'

type Category = Schemas['Category']
interface CategoryRow {
  /** A category that will be created with the product has no slug yet. */
  slug: string | null
  path: string[]
}

/** The categories of a product, chosen in the tree. The first one is the main category. */
export function productCategories(
  stored: () => Schemas['EditedProduct']['categories'],
  onChange: () => void,
  { report, signal }: Pick<ScreenContext, 'report' | 'signal'>,
) {
  const rows = createRows<CategoryRow>(
    'categories',
    () => stored().map(({ slug, path }) => ({ slug, path: path.map(({ name }) => name) })),
    onChange,
  )
  let tree: readonly Category[] = []
  let below = ''
  let name = ''
  read(api.GET('/categories', { signal })).then(({ data }) => {
    tree = data
    onChange()
  }, report)

  const pathOf = (category: Category | undefined): string[] =>
    category === undefined ? [] : [...pathOf(tree.find(({ id }) => id === category.parent_id)), category.name]
  const choose = ({ currentTarget }: Event) => {
    const select = currentTarget as HTMLSelectElement
    const category = tree.find(({ id }) => id === select.value)
    select.value = ''
    if (category !== undefined) rows.add({ slug: category.slug, path: pathOf(category) })
  }
  const create = () => {
    const path = [...pathOf(tree.find(({ id }) => id === below)), name.trim()]
    name = ''
    rows.add({ slug: null, path })
  }
  const options = (isFree: (category: Category) => boolean) =>
    tree
      .filter(isFree)
      .map((category) => html`<option value=${category.id}>${'\u00a0\u00a0'.repeat(category.depth)}${category.name}</option>`)
  const row = ({ path, slug }: CategoryRow, index: number) => {
    const text = path.join(' › ')
    return html`<li>${text} ${slug === null ? html`<small class="muted">new</small>` : nothing} ${index === 0 ? html`<small class="muted">main category</small>` : nothing}
      ${index === 0 ? nothing : html`<button type="button" aria-label=${t`Make ${text} the main category`} @click=${() => rows.move(index, 0)}>↑</button>`}
      <button type="button" aria-label=${t`Remove the category ${text}`} @click=${() => rows.remove(index)}>×</button></li>`
  }
  const isFree = ({ slug }: Category) => !rows.rows().some((chosen) => chosen.slug === slug)
  const view = (): Content =>
    rows.mark(html`
      ${rows.rows().length === 0 ? note(t`A product has at least one category.`) : html`<ul class="chosen">${rows.rows().map(row)}</ul>`}
      <select aria-label="Add a category" @change=${choose}><option value="">Add a category …</option>${options(isFree)}</select>
      <details><summary>New category</summary><div class="row" @keydown=${(event: KeyboardEvent) => {
        if (event.key !== 'Enter') return
        event.preventDefault()
        if (name.trim() !== '') create()
      }}>
        ${cell({ label: t`Name of the new category`, value: name, maxLength: 100 }, (text) => {
          name = text
          onChange()
        })}
        <select aria-label="Below" @change=${({ currentTarget }: Event) => {
          below = (currentTarget as HTMLSelectElement).value
        }}><option value="">at the top</option>${options(() => true)}</select>
        <button type="button" ?disabled=${name.trim() === ''} @click=${create}>Add it</button>
      </div></details>`)
  return {
    view,
    read(): Schemas['ProductChange'] {
      if (!rows.isChanged()) return {}
      if (rows.rows().length === 0) throw new Error(t`Choose at least one category.`)
      return { categories: rows.rows().map(({ slug, path }) => slug ?? path) }
    },
    discard: rows.discard,
  }
}

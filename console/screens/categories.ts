import { addressOf } from '../kit/address.ts'
import { api, read, readTagged, type Schemas } from '../kit/api.ts'
import { confirmAction, openFormDialog } from '../kit/dialog.ts'
import { follow } from '../kit/follow.ts'
import { choice, entered, field } from '../kit/form.ts'
import { type Content, html, note, nothing, table } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { orderProducts } from './category-order.ts'

type Category = Schemas['Category']

const SECONDS = 30

/** `#products?categories=1`: the tree of categories, to create, rename, move, reorder and delete them. */
export function categories(context: ScreenContext): () => Content {
  const { signal, tell, act, title } = context
  title(t`Categories`)
  const listed = follow(context, (init) => api.GET('/categories', init), { seconds: SECONDS })
  const { refresh } = listed
  refresh()
  const tree = () => listed()?.data ?? []

  /** The entity tag of the shown state. Throws when the category has changed since. */
  const etagOf = async (shown: Category): Promise<string> => {
    const { data: now, etag } = await readTagged(api.GET('/admin/categories/{id}', { params: { path: { id: shown.id } } }))
    const isSame = (['name', 'slug', 'parent_id', 'position'] as const).every((name) => now[name] === shown[name])
    if (!isSame) throw new Error(t`The category was changed meanwhile. Close this and look at it again.`)
    return etag
  }
  const edit = (category: Category) => {
    const path = { id: category.id }
    const onSubmit = async (data: FormData) => {
      const { name = '', slug = '', parent = '', position = '' } = entered(data)
      const next = { name, slug, parent_id: parent || null, position: Number(position) - 1 }
      const body = Object.fromEntries(Object.entries(next).filter(([key, value]) => value !== category[key as keyof typeof next]))
      if (Object.keys(body).length > 0) {
        const params = { path, header: { 'if-match': await etagOf(category) } }
        const saved = await read(api.PATCH('/admin/categories/{id}', { params, body }))
        tell(t`${saved.name} is saved.`)
      }
      refresh()
    }
    openFormDialog({ title: t`Category: ${category.name}`, signal, onSubmit }, () => () => categoryFields(category, tree()))
  }
  const remove = async (category: Category) => {
    const question = { title: t`Delete the category?`, text: [category.name], action: t`Delete`, danger: true }
    if (!(await confirmAction(question, signal))) return
    try {
      const header = { 'if-match': await etagOf(category) }
      await api.DELETE('/admin/categories/{id}', { params: { path: { id: category.id }, header } })
      tell(t`${category.name} is deleted.`)
    } finally {
      refresh()
    }
  }
  const add = () => {
    const onSubmit = async (data: FormData) => {
      const { name = '', parent = '' } = entered(data)
      const created = await read(api.POST('/admin/categories', { body: { name, parent_id: parent || null } }))
      tell(t`${created.name} is created.`)
      refresh()
    }
    openFormDialog({ title: t`New category`, submit: t`Create`, signal, onSubmit }, () => () => categoryFields(null, tree()))
  }
  const columns = [
    { title: t`Name`, cell: ({ name, depth }: Category) => `${'\u00a0\u00a0\u00a0'.repeat(depth)}${name}` },
    { title: t`Slug`, cell: ({ slug }: Category) => slug },
    { title: t`List`, cell: ({ slug }: Category) => html`<a href=${addressOf('products', { category: slug })}>Products</a>` },
    {
      title: t`Actions`,
      cell: (category: Category) => html`<span class="actions">
        <button type="button" aria-label=${t`Edit: ${category.name}`} @click=${() => edit(category)}>Edit</button>
        <button type="button" aria-label=${t`Arrange the products: ${category.name}`} @click=${act(() => orderProducts(category, context))}>Arrange</button>
        <button type="button" class="danger" aria-label=${t`Delete: ${category.name}`} @click=${act(() => remove(category))}>Delete</button></span>`,
    },
  ]
  return () => html`<a href="#products">← All products</a>
    <div class="title"><h2>Categories</h2><div class="actions"><button type="button" class="primary" @click=${add}>New category</button></div></div>
    ${listed.show(({ data, is_complete }) => [
      data.length === 0 ? note(t`There is no category.`) : table(t`Categories`, columns, data, ({ id }) => id),
      is_complete ? nothing : note(t`There are more: these are the first.`),
    ])}`
}

function categoryFields(category: Category | null, tree: readonly Category[]): Content {
  const text = (name: 'name' | 'slug') =>
    html`<input name=${name} maxlength="100" required autocomplete="off" .defaultValue=${category?.[name] ?? ''}>`
  const parents = tree
    .filter(({ id }) => id !== category?.id)
    .map(({ id, name, depth }) => [id, `${'\u00a0\u00a0'.repeat(depth)}${name}`] as const)
  const common = html`${field(t`Name`, text('name'))}
    ${field(t`Below`, choice({ name: 'parent' }, [['', t`none: at the top`], ...parents], category?.parent_id ?? ''))}`
  if (category === null) return common
  const position = html`<input name="position" type="number" min="1" .defaultValue=${String(category.position + 1)}>`
  return html`${common}${field(t`Slug`, text('slug'))}${field(t`Place among its siblings`, position)}`
}

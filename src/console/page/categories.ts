import { call, pathOf, type Schemas, send, withQuery } from './api.ts'
import { confirmAction, openFormDialog } from './dialog.ts'
import { button, create, link, note, replaceChildren, table } from './dom.ts'
import { choice, field } from './form.ts'
import type { ScreenContext } from './screen.ts'

type Category = Schemas['Category']
type Context = Pick<ScreenContext, 'signal' | 'report' | 'tell'>

/** `#products?categories=1`: the tree of categories, to create, rename, move, reorder and delete them. */
export function showCategories(root: HTMLElement, { signal, report, tell }: Context): void {
  const content = create('div')
  const readTree = () => call<Schemas['Categories']>('GET', '/categories', { signal })

  const load = () => readTree().then(({ data, is_complete }) => show(data, is_complete), report)

  function show(tree: readonly Category[], isComplete: boolean): void {
    const rows = tree.map((category) => [
      create('span', {}, `${'\u00a0\u00a0\u00a0'.repeat(category.depth)}${category.name}`),
      category.slug,
      link(withQuery('#products', { category: category.slug }), 'Products'),
      create('span', { class: 'actions' }, ...actionsOf(category, tree)),
    ])
    replaceChildren(
      content,
      rows.length === 0 ? note('There is no category.') : table('Categories', ['Name', 'Slug', 'List', 'Actions'], rows),
      !isComplete && note('There are more: these are the first.'),
    )
  }

  const actionsOf = (category: Category, tree: readonly Category[]) => {
    const named = (text: string, onClick: () => unknown) =>
      Object.assign(button(text, onClick, report), { ariaLabel: `${text}: ${category.name}` })
    return [named('Edit…', () => edit(category, tree)), named('Delete…', () => remove(category))]
  }

  /** The entity tag of the shown state. Throws when the category has changed meanwhile. */
  async function etagOf(shown: Category): Promise<string> {
    const answer = await send('GET', pathOf`/admin/categories/${shown.id}`, { signal })
    const now = (await answer.json()) as Category
    const isSame = (['name', 'slug', 'parent_id', 'position'] as const).every((name) => now[name] === shown[name])
    if (!isSame) throw new Error('The category was changed meanwhile. Close this and look at it again.')
    return answer.headers.get('etag') ?? ''
  }

  function edit(category: Category, tree: readonly Category[]): void {
    const { name, slug, parent, position, elements } = categoryFields(category, tree)
    const onSubmit = async () => {
      const next = { name: name.value, slug: slug.value, parent_id: parent.value || null, position: Number(position.value) - 1 }
      const body = Object.fromEntries(Object.entries(next).filter(([key, value]) => value !== category[key as keyof typeof next]))
      if (Object.keys(body).length > 0) {
        const saved = await call<Category>('PATCH', pathOf`/admin/categories/${category.id}`, { body, ifMatch: await etagOf(category) })
        tell(`${saved.name} is saved.`)
      }
      await load()
    }
    openFormDialog({ title: `Category: ${category.name}`, submit: 'Save', signal, onSubmit }, ...elements)
  }

  async function remove(category: Category): Promise<void> {
    const question = { title: 'Delete the category?', text: [category.name], action: 'Delete' }
    if (!(await confirmAction(question, signal))) return
    try {
      await send('DELETE', pathOf`/admin/categories/${category.id}`, { ifMatch: await etagOf(category) })
      tell(`${category.name} is deleted.`)
    } finally {
      await load()
    }
  }

  async function add(): Promise<void> {
    const tree = (await readTree()).data
    const { name, parent, elements } = categoryFields(null, tree)
    const onSubmit = async () => {
      const created = await call<Category>('POST', '/admin/categories', { body: { name: name.value, parent_id: parent.value || null } })
      tell(`${created.name} is created.`)
      await load()
    }
    openFormDialog({ title: 'New category', submit: 'Create', signal, onSubmit }, ...elements)
  }

  root.append(
    link('#products', '← All products'),
    create('h2', {}, 'Products: categories'),
    create('p', { class: 'actions' }, button('New category…', add, report)),
    content,
  )
  void load()
}

function categoryFields(category: Category | null, tree: readonly Category[]) {
  const text = (name: 'name' | 'slug') =>
    create('input', { name, maxLength: 100, required: true, autocomplete: 'off', value: category?.[name] ?? '' })
  const options = tree
    .filter(({ id }) => id !== category?.id)
    .map(({ id, name, depth }) => [id, `${'\u00a0\u00a0'.repeat(depth)}${name}`] as const)
  const controls = {
    name: text('name'),
    slug: text('slug'),
    parent: choice({ name: 'parent' }, [['', 'none: at the top'], ...options], category?.parent_id ?? ''),
    position: create('input', { name: 'position', type: 'number', min: '1', value: String((category?.position ?? 0) + 1) }),
  }
  const forAll = [field('Name', controls.name), field('Below', controls.parent)]
  const elements =
    category === null ? forAll : [...forAll, field('Slug', controls.slug), field('Place among its siblings', controls.position)]
  return { ...controls, elements }
}

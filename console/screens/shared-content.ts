import { MAX_LENGTHS } from '../../src/catalogue/product-rules.ts'
import { api, isProblem, readTagged, type Schemas } from '../kit/api.ts'
import { createForm, field } from '../kit/form.ts'
import { type Content, card, html, loading, note, nothing } from '../kit/html.ts'
import { plural, t, word } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { languageName } from './parts.ts'
import { productAttributes } from './product-attributes.ts'
import { productImages } from './product-images.ts'
import { productTexts } from './product-texts.ts'

type Group = Schemas['ProductGroup']
type GroupChange = Schemas['ProductGroupChange']

const WORDS: Readonly<Record<string, string>> = {
  availability_text: t`Availability`,
  'seo.title': t`SEO title`,
  'seo.description': t`SEO text`,
}

/** What all variants of a group share, as a form that changes it in all of them. `onSaved` shows the changed variants. */
export function sharedContent(groupOf: () => string | null, onSaved: () => Promise<void>, context: ScreenContext) {
  const { tell, update, signal, report } = context
  let shown: { group: Group; etag: string } | null = null
  let isOpen = false

  const stored = () => {
    const { name, ...content } = (shown as NonNullable<typeof shown>).group
    return { ...content, name: name ?? '' }
  }
  const onChange = () => {
    update()
    setTimeout(form.recount)
  }
  const texts = productTexts(stored, onChange, { isNameOptional: true })
  const images = productImages(() => stored().images, onChange)
  const attributes = productAttributes(() => stored().attributes, onChange)
  const discard = () => [texts, images, attributes].forEach((part) => void part.discard())

  const readGroup = async (group: string) => {
    const { data, etag } = await readTagged(api.GET('/admin/groups/{group}', { params: { path: { group } }, signal }))
    return { group: data, etag }
  }
  async function load(): Promise<void> {
    const group = groupOf()
    const next = group === null ? null : await readGroup(group)
    if (groupOf() !== group) return
    const isOther = shown?.group.group !== group
    await form.follow(() => {
      shown = next
      if (next !== null && isOther) discard()
      update()
    })
  }
  async function save(data: FormData): Promise<void> {
    if (shown === null) return
    const { group, etag } = shown
    const changed = new Set(form.changes())
    const brand = String(data.get('brand') ?? '').trim() || null
    const edited = { ...texts.read(data, changed), ...images.read(), ...attributes.read(), ...(changed.has('brand') ? { brand } : {}) }
    const body = differenceOf(pick(group, Object.keys(edited)), { ...edited, ...(edited.name === '' ? { name: null } : {}) })
    if (Object.keys(body).length === 0) return tell(t`Nothing has changed.`)
    const params = { path: { group: group.group }, header: { 'if-match': etag } }
    try {
      const saved = await readTagged(api.PATCH('/admin/groups/{group}', { params, body: body as GroupChange }))
      await form.follow(() => {
        shown = { group: saved.data, etag: saved.etag }
        update()
      }, 'all')
      discard()
    } catch (error) {
      if (!isProblem(error, 'precondition_failed')) throw error
      await load()
      throw new Error(t`Nothing was saved: what the variants share was changed meanwhile. Look at it, and save again to replace that.`)
    }
    tell(t`All variants are saved that had the shared values.`)
    await onSaved()
  }
  const form = createForm(context, { edits: true, submit: t`Save for all variants`, onSubmit: save })

  const overrides = ({ variants }: Group) => {
    const own = variants.filter((variant) => variant.overrides.length > 0)
    if (own.length === 0) return note(t`All variants have these values.`)
    return html`<p class="muted">${plural(own.length, t`${own.length} variant has values of its own, which stay:`, t`${own.length} variants have values of their own, which stay:`)}</p>
      <ul>${own.map((variant) => html`<li>${variant.sku}: ${variant.overrides.map(memberText).join(', ')}</li>`)}</ul>`
  }
  const fields = (group: Group) => html`${overrides(group)}
    ${texts.view()}
    ${field(t`Brand`, html`<input name="brand" maxlength=${MAX_LENGTHS.brand} autocomplete="off" .defaultValue=${group.brand ?? ''}>`)}
    <h4>Images</h4>${images.view()}
    <h4>Attributes</h4>${attributes.view()}`
  const view = (): Content => {
    if (groupOf() === null) return nothing
    const content = () => (shown === null ? loading() : html`<div @reset=${discard}>${form(fields(shown.group))}</div>`)
    return card(
      t`Shared by all variants`,
      html`<p class="muted">A change here changes every variant that has the shared value.</p>
      <details ?open=${isOpen} @toggle=${({ currentTarget }: Event) => {
        const wasOpen = isOpen
        isOpen = (currentTarget as HTMLDetailsElement).open
        if (isOpen && !wasOpen) load().catch((error: unknown) => signal.aborted || report(error))
        update()
      }}><summary>Texts, images and attributes</summary>${isOpen ? content() : nothing}</details>`,
    )
  }
  return {
    view,
    /** Reads the group again while it is shown, after a variant has changed. */
    refresh: async () => {
      if (isOpen) await load()
    },
  }
}

/** A JSON Merge Patch (RFC 7396) from one state to another. */
function differenceOf(before: object, after: object): object {
  const old = new Map<string, unknown>(Object.entries(before))
  const now = new Map<string, unknown>(Object.entries(after))
  const names = [...new Set([...old.keys(), ...now.keys()])].filter(
    (name) => JSON.stringify(old.get(name)) !== JSON.stringify(now.get(name)),
  )
  const change = (name: string) => {
    const [from, to] = [old.get(name), now.get(name)]
    return isObject(to) ? differenceOf(isObject(from) ? from : {}, to) : (to ?? null)
  }
  return Object.fromEntries(names.map((name) => [name, change(name)]))
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function pick(group: Group, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(group).filter(([name]) => names.includes(name)))
}

/** The words for a member of a group, such as `attributes.material` or `translations.de.name`. */
function memberText(path: string): string {
  const [property = '', first = '', ...rest] = path.split('.')
  if (property === 'attributes') return [first, ...rest].join('.')
  if (property === 'translations') return `${languageName(first)}: ${memberText(rest.join('.').replace('seo_', 'seo.'))}`
  return WORDS[path] ?? word(path)
}

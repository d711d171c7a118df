import { MAX_RANKED } from '../../src/catalogue/product-rules.ts'
import { api, isProblem, read, readTagged, type Schemas } from '../kit/api.ts'
import { type Dialog, openFormDialog } from '../kit/dialog.ts'
import { type Content, html, live, note, nothing, picture } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { cell, createRows, type Rows } from '../kit/rows.ts'
import type { ScreenContext } from '../kit/screen.ts'

type Category = Schemas['Category']
type Placed = Pick<Schemas['PlacedProducts']['data'][number], 'id' | 'sku' | 'name' | 'image_url' | 'group' | 'is_listed'>

const FOUND = 10

/** A dialog that arranges the first products of a category by dragging, by buttons or by number. */
export async function orderProducts(category: Category, context: Pick<ScreenContext, 'signal' | 'tell' | 'report'>): Promise<void> {
  const { signal, tell } = context
  const path = { id: category.id }
  const readOrder = () => readTagged(api.GET('/admin/categories/{id}/products', { params: { path } }))
  let { data: stored, etag } = await readOrder()
  let rows: Rows<Placed> | undefined
  const save = async () => {
    const ids = (rows?.rows() ?? []).map(({ id }) => id)
    const params = { path, header: { 'if-match': etag } }
    try {
      await read(api.PUT('/admin/categories/{id}/products', { params, body: { product_ids: ids } }))
    } catch (error) {
      if (!isProblem(error, 'precondition_failed')) throw error
      ;({ data: stored, etag } = await readOrder())
      // The store has saved this order, and only its answer was lost.
      if (stored.data.map(({ id }) => id).join() === ids.join()) return
      throw new Error(t`Nothing was saved: the order was changed meanwhile. Yours is kept; save again to replace the other.`)
    }
  }
  const onSubmit = async () => {
    if (rows?.isChanged() !== true) return tell(t`Nothing has changed.`)
    await save()
    tell(t`The order of ${category.name} is saved.`)
  }
  openFormDialog({ title: t`Arrange the products: ${category.name}`, signal, onSubmit, wide: true }, (dialog) => {
    const placed = placedProducts(category, () => stored.data, dialog, context)
    rows = placed.rows
    return placed.view
  })
}

function placedProducts(
  { slug }: Category,
  stored: () => readonly Placed[],
  { update }: Dialog,
  { signal, report }: Pick<ScreenContext, 'signal' | 'report'>,
): { view: () => Content; rows: Rows<Placed> } {
  const rows = createRows<Placed>('products', stored, update)
  let words = ''
  let found: readonly Placed[] | null = null

  const find = () => {
    const query = { q: words.trim(), category: slug, limit: FOUND }
    read(api.GET('/products', { params: { query }, signal })).then(({ data }) => {
      found = data.map(({ id, sku, name, image_url, group }) => ({ id, sku, name, image_url, group, is_listed: true }))
      update()
    }, report)
  }
  /** The focus stays on the moved product. */
  const move = (from: number, to: number, { currentTarget }: Event) => {
    const list = (currentTarget as HTMLElement).closest('ol')
    const { name } = currentTarget as HTMLButtonElement
    rows.move(from, to)
    requestAnimationFrame(() => {
      const controls = [...(list?.children[to]?.querySelectorAll<HTMLElement>(`[name="${name}"], button`) ?? [])]
      controls.find((control) => !control.matches(':disabled'))?.focus()
    })
  }
  const row = ({ name, sku, image_url, is_listed }: Placed, index: number) => {
    const { start, over, drop } = rows.dragging(index)
    const last = rows.rows().length - 1
    const toNumber = (event: Event) => {
      const { value } = event.currentTarget as HTMLInputElement
      const to = value === '' ? index : Number(value) - 1
      // An invalid number is replaced with the product's number.
      if (to === index || !Number.isInteger(to)) update()
      else move(index, Math.min(last, Math.max(0, to)), event)
    }
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Enter') return
      event.preventDefault()
      toNumber(event)
    }
    const place = String(index + 1)
    return html`<li draggable="true" @dragstart=${start} @dragover=${over} @drop=${drop}>
      <input name="place" type="number" min="1" max=${last + 1} aria-label=${t`Place of ${name}`}
        .defaultValue=${place} .value=${live(place)} @change=${toNumber} @keydown=${onKey}>
      ${picture(image_url)}
      <span>${name} <small class="muted">${sku}${is_listed ? '' : t`, not in the shop now`}</small></span>
      <span class="actions">
        <button type="button" name="forward" aria-label=${t`Move ${name} forward`} ?disabled=${index === 0} @click=${(event: Event) => move(index, index - 1, event)}>↑</button>
        <button type="button" name="back" aria-label=${t`Move ${name} back`} ?disabled=${index === last} @click=${(event: Event) => move(index, index + 1, event)}>↓</button>
        <button type="button" aria-label=${t`Remove ${name}`} @click=${() => rows.remove(index)}>×</button>
      </span></li>`
  }
  const result = (product: Placed) => {
    const isPlaced = rows.rows().some(({ id, group }) => id === product.id || (group !== null && group === product.group))
    const isFull = rows.rows().length >= MAX_RANKED
    return html`<li>${product.name} <small class="muted">${product.sku}</small>
      <button type="button" aria-label=${t`Place ${product.name}`} ?disabled=${isPlaced || isFull} @click=${() => rows.add(product)}>Place</button></li>`
  }
  const view =
    () => html`<p class="muted">Lists by position begin with these products, at most ${MAX_RANKED}. The others follow, newest first.</p>
    ${rows.mark(
      rows.rows().length === 0
        ? note(t`No product is placed: the newest come first.`)
        : html`<ol class="placed">${rows.rows().map(row)}</ol>`,
    )}
    <div class="row" @keydown=${(event: KeyboardEvent) => {
      if (event.key !== 'Enter') return
      event.preventDefault()
      if (words.trim() !== '') find()
    }}>${cell({ label: t`Find a product of the category`, value: words, maxLength: 200 }, (text) => {
      words = text
      update()
    })}<button type="button" ?disabled=${words.trim() === ''} @click=${find}>Find</button></div>
    ${found === null ? nothing : found.length === 0 ? note(t`No product of the category matches.`) : html`<ul class="chosen">${found.map(result)}</ul>`}`
  return { view, rows }
}

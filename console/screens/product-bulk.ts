import { api, explain, read, SignedOut } from '../kit/api.ts'
import { openDialog, openFormDialog } from '../kit/dialog.ts'
import { entered, field } from '../kit/form.ts'
import { type Content, html, menu } from '../kit/html.ts'
import { plural, t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { timeText, timeZone, toInstant, toLocalTime } from '../kit/times.ts'
import { saleState } from './parts.ts'
import type { ProductChange } from './product-fields.ts'
import { changeProduct, type ProductState, readState } from './product-form.ts'
import type { ListedProduct } from './products.ts'

/** Actions on selected products. Each product is changed separately, so a refusal stops no other change. */
export function bulkActions(context: ScreenContext, refresh: () => void): (chosen: readonly ListedProduct[]) => Content {
  const { act, tell, signal } = context

  /** Changes each product, and shows which ones were refused. */
  async function each(chosen: readonly ListedProduct[], state: string, work: (id: string) => Promise<unknown>): Promise<string[]> {
    const refused: string[] = []
    const done: string[] = []
    for (const { id, name } of chosen) {
      try {
        await work(id)
        done.push(id)
      } catch (error) {
        if (error instanceof SignedOut) throw error
        refused.push(`${name}: ${explain(error)}`)
      }
    }
    refresh()
    tell(doneText(done.length, state))
    if (refused.length > 0) showRefused(refused, signal)
    return done
  }
  const change = (chosen: readonly ListedProduct[], done: string, bodyOf: (state: ProductState) => ProductChange) =>
    each(chosen, done, async (id) => {
      const state = await readState(id)
      await changeProduct(id, state.etag, bodyOf(state))
    })
  const publish = (chosen: readonly ListedProduct[]) =>
    each(chosen, t`in the shop`, async (id) => {
      const { product } = await changeProduct(id, (await readState(id)).etag, { status: 'active' })
      const [state] = saleState(product)
      if (state === 'planned') throw new Error(t`active, and in the shop from ${timeText(new Date(product.published_at ?? ''))} on.`)
      if (state === 'ended') throw new Error(t`active, but its time in the shop has ended.`)
    })
  const restore = (ids: readonly string[], chosen: readonly ListedProduct[]) =>
    each(
      chosen.filter(({ id }) => ids.includes(id)),
      t`restored`,
      (id) => api.POST('/admin/products/{id}/restore', { params: { path: { id } } }),
    )
  const archive = async (chosen: readonly ListedProduct[]) => {
    const done = await each(chosen, t`archived`, (id) => api.DELETE('/admin/products/{id}', { params: { path: { id } } }))
    if (done.length === 0) return
    tell(doneText(done.length, t`archived`), [t`Undo`, () => restore(done, chosen)])
  }
  const askForSale = (chosen: readonly ListedProduct[]) => {
    const onSubmit = async (data: FormData) => {
      const { percent = '', from = '', until = '' } = entered(data)
      await change(chosen, t`on sale`, (state) =>
        saleOf(state, Number(percent), { from: toInstant(from), until: until === '' ? null : toInstant(until) }),
      )
    }
    openFormDialog(
      { title: t`Put ${chosen.length} on sale`, submit: t`Put on sale`, signal, onSubmit },
      () => () =>
        html`
      ${field(t`Percent off`, html`<input name="percent" type="number" min="1" max="99" step="1" required>`, t`The price in each currency is reduced and rounded.`)}
      ${field(t`From`, html`<input name="from" type="datetime-local" required .defaultValue=${toLocalTime(new Date().toISOString())}>`, t`Times are those of ${timeZone()}.`)}
      ${field(t`Until`, html`<input name="until" type="datetime-local">`, t`Empty: until somebody ends it.`)}`,
    )
  }
  const askForCategory = async (chosen: readonly ListedProduct[]) => {
    const { data: tree } = await read(api.GET('/categories', { signal }))
    const onSubmit = (data: FormData) => change(chosen, t`in the category`, () => ({ categories: [String(data.get('category'))] }))
    openFormDialog(
      { title: t`Change the category of ${chosen.length}`, submit: t`Change`, signal, onSubmit },
      () => () =>
        field(
          t`Category`,
          html`<select name="category" required>${tree.map(({ slug, name, depth }) => html`<option value=${slug}>${'\u00a0\u00a0'.repeat(depth)}${name}</option>`)}</select>`,
          t`It replaces all categories that the products have.`,
        ),
    )
  }
  return (chosen) => {
    const isArchived = chosen.some((product) => 'archived_at' in product && product.archived_at !== null)
    if (isArchived)
      return html`<button type="button" class="primary" @click=${act(() =>
        restore(
          chosen.map(({ id }) => id),
          chosen,
        ),
      )}>Restore</button>`
    return html`<button type="button" @click=${() => askForSale(chosen)}>Put on sale…</button>
      <button type="button" @click=${act(() => askForCategory(chosen))}>Category…</button>
      ${menu(
        t`More`,
        html`<button type="button" @click=${act(() => publish(chosen))}>Publish</button>`,
        html`<button type="button" @click=${act(() => change(chosen, t`a draft`, () => ({ status: 'draft' })))}>Make a draft</button>`,
        html`<button type="button" class="danger" @click=${act(() => archive(chosen))}>Archive</button>`,
      )}`
  }
}

function doneText(count: number, state: string): string {
  return plural(count, t`${count} product is ${state}.`, t`${count} products are ${state}.`)
}

function saleOf({ product }: ProductState, percent: number, time: { from: string; until: string | null }): ProductChange {
  const reduced = (amount: number) => Math.round((amount * (100 - percent)) / 100)
  const own = [product.price, ...product.prices].map(({ amount, currency }) => ({ amount: reduced(amount), currency, ...time }))
  return { sale_prices: [...product.sale_prices, ...own] }
}

function showRefused(refused: readonly string[], signal: AbortSignal): void {
  openDialog(
    t`Not as asked`,
    signal,
    ({ close }) =>
      () =>
        html`<ul>${refused.map((text) => html`<li>${text}</li>`)}</ul>
    <div class="actions"><button type="button" autofocus @click=${close}>Close</button></div>`,
  )
}

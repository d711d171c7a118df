import { readAmount } from '../kit/amount.ts'
import { api, explain, isProblem, NoAnswer, read, type Schemas, SignedOut } from '../kit/api.ts'
import { createForm } from '../kit/form.ts'
import { badge, type Content, card, html, loading, note, nothing, repeat } from '../kit/html.ts'
import { plural, t } from '../kit/language.ts'
import { readAll } from '../kit/names.ts'
import { cell } from '../kit/rows.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { productAddress } from './parts.ts'
import type { Product, ProductChange } from './product-fields.ts'
import { changeProduct, type ProductForm, type ProductState, readState } from './product-form.ts'
import { sharedContent } from './shared-content.ts'
import {
  type Cells,
  cellsOf,
  changedCells,
  combine,
  type GridColumn,
  headerOf,
  isSameOptions,
  mergeCells,
  pastedRows,
  readCell,
  skuFor,
  withCell,
} from './variant-rows.ts'

type Stock = Schemas['Stock']

/** A stored variant, or one that will be created. */
interface Variant {
  key: string
  state: ProductState | null
  stock: Stock | undefined
}

/** Largest number of products in one stock request. */
const MAX_IDS = 100
const AT_ONCE = 8
const MAX_GROUP = 64

/**
 * A product's variants as a grid. Rows are edited, generated from options, or pasted from a spreadsheet. Each variant
 * is a product, and all share a group. `productForm` shows the page's product.
 */
export function variantGrid(current: () => ProductState, productForm: Omit<ProductForm, 'view'>, context: ScreenContext) {
  const { may, tell, update, signal, report } = context
  let stored: readonly Variant[] = []
  let added: readonly Variant[] = []
  /** All cells of a new variant, but only the changed cells of a stored one, whose other cells follow the store. */
  let edited = new Map<string, Partial<Cells>>()
  let faults = new Map<string, string>()
  let options: readonly { name: string; values: string }[] = [{ name: '', values: '' }]
  let lastKey = 0
  let lastLoad = 0

  const currencies = () => [current().product.price.currency, ...current().product.prices.map(({ currency }) => currency)]
  const variants = () => [...stored, ...added]
  const storedCells = ({ state, stock }: Variant) => (state === null ? null : cellsOf(state.product, stock?.available))
  const cellsFor = (variant: Variant): Cells => mergeCells(storedCells(variant) ?? emptyCells(), edited.get(variant.key))
  const emptyCells = (): Cells => ({ ...cellsOf(current().product, null), options: {}, sku: '', stock: '' })
  const isChanged = (variant: Variant) =>
    variant.state === null || (edited.has(variant.key) && JSON.stringify(cellsFor(variant)) !== JSON.stringify(storedCells(variant)))
  const optionNames = () => [...new Set(variants().flatMap((variant) => Object.keys(cellsFor(variant).options)))]
  const columns = (): GridColumn[] => [
    ...optionNames().map((name) => ({ kind: 'option' as const, name })),
    { kind: 'sku' },
    ...currencies().map((name) => ({ kind: 'price' as const, name })),
    { kind: 'stock' },
  ]
  const changed = () => {
    update()
    setTimeout(form.recount)
  }

  async function load(): Promise<void> {
    const turn = ++lastLoad
    const { product, etag } = current()
    const ids = product.group === null ? [] : await idsOf(product.group)
    const states: ProductState[] = [{ product, etag }]
    const others = ids.filter((id) => id !== product.id)
    for (let at = 0; at < others.length; at += AT_ONCE) states.push(...(await Promise.all(others.slice(at, at + AT_ONCE).map(readState))))
    const wanted = states.map(({ product: { id } }) => id)
    const levels: Stock[] = []
    for (let at = 0; may('stock:read') && at < wanted.length; at += MAX_IDS) {
      const ids = wanted.slice(at, at + MAX_IDS).join(',')
      levels.push(...(await read(api.GET('/admin/stock', { params: { query: { ids } }, signal }))).data)
    }
    if (turn !== lastLoad) return
    const inOrder = states.toSorted((a, b) => (a.product.id < b.product.id ? -1 : 1))
    stored = inOrder.map((state) => ({
      key: state.product.id,
      state,
      stock: levels.find(({ product_id }) => product_id === state.product.id),
    }))
    changed()
  }
  const idsOf = async (group: string) => {
    const all = await readAll((query) => read(api.GET('/admin/products', { params: { query: { group, ...query } }, signal })))
    return all.filter(({ archived_at }) => archived_at === null).map(({ id }) => id)
  }

  const setCells = (variant: Variant, cells: Cells) => {
    const before = storedCells(variant)
    edited.set(variant.key, before === null ? cells : changedCells(before, cells))
  }
  const edit = (variant: Variant, column: GridColumn, text: string) => setCells(variant, withCell(cellsFor(variant), column, text))
  const add = (cells: Cells): Variant => {
    const variant = { key: `new ${++lastKey}`, state: null, stock: undefined }
    edited.set(variant.key, cells)
    added = [...added, variant]
    return variant
  }
  const makeRows = () => {
    for (const combination of combine(options)) {
      if (variants().some((variant) => isSameOptions(cellsFor(variant).options, combination))) continue
      // The page's product becomes the first variant.
      const plain = stored.find((variant) => Object.keys(cellsFor(variant).options).length === 0)
      if (plain !== undefined) setCells(plain, { ...cellsFor(plain), options: combination })
      else add({ ...emptyCells(), options: combination, sku: skuFor(current().product.sku, combination) })
    }
    options = [{ name: '', values: '' }]
    changed()
  }
  /** Rows with a header are matched by SKU. Others are filled in to the right of and below the cell. */
  const paste = (event: ClipboardEvent) => {
    const text = event.clipboardData?.getData('text') ?? ''
    const place = (event.target as Element).closest<HTMLElement>('[data-row]')
    if (!/[\t\n]/.test(text)) return
    event.preventDefault()
    const [first = [], ...rest] = pastedRows(text)
    const header = headerOf(first, currencies())
    const titled = header ?? columns().slice(Number(place?.dataset.column ?? 0))
    const begin = place === null ? variants().length : Number(place.dataset.row)
    const rows = header === null ? [first, ...rest] : rest
    const skuAt = titled.findIndex(({ kind }) => kind === 'sku')
    rows.forEach((row, index) => {
      const known = header === null ? variants()[begin + index] : variants().find((variant) => cellsFor(variant).sku === row[skuAt])
      const variant = known ?? add(emptyCells())
      for (const [at, column] of titled.entries()) if (row[at] !== undefined) edit(variant, column, row[at])
    })
    changed()
  }
  const remove = (variant: Variant) => {
    added = added.filter((one) => one !== variant)
    edited.delete(variant.key)
    changed()
  }
  const discard = () => {
    added = []
    edited = new Map()
    faults = new Map()
    changed()
  }

  /** Saves one variant after the other. A refusal stays in its row and stops no other. */
  async function save(): Promise<void> {
    faults = new Map()
    const sent = variants().filter(isChanged)
    const group = await groupFor(sent)
    const overtaken: Variant[] = []
    let saved = 0
    for (const variant of sent) {
      const { key, state } = variant
      const [edits, cells] = [edited.get(key), cellsFor(variant)]
      let id = key
      try {
        if (state === null) id = await create(cells, group)
        else await change(variant, isOwn(state) ? current() : state, group)
        saved++
        const now = edited.get(key)
        const typed = changedCells(cells, cellsFor(variants().find((one) => one.key === key) ?? variant))
        edited.delete(key)
        // What was typed meanwhile stays a change of the stored variant.
        if (now !== undefined && now !== edits) edited.set(id, typed)
        added = added.filter((one) => one !== variant)
      } catch (error) {
        if (error instanceof SignedOut || error instanceof NoAnswer) throw error
        if (isProblem(error, 'precondition_failed')) overtaken.push(variant)
        faults.set(key, explain(error))
      }
    }
    const mine = new Map(overtaken.map((variant) => [variant.key, cellsFor(variant)]))
    await load()
    for (const variant of overtaken) faults.set(variant.key, explainOvertaken(variant, mine.get(variant.key)))
    if (saved > 0) tell(plural(saved, t`${saved} variant is saved.`, t`${saved} variants are saved.`))
    if (faults.size > 0) {
      const lost = faults.size
      throw new Error(
        plural(
          lost,
          t`${lost} variant was not saved: the reason is in the row.`,
          t`${lost} variants were not saved: the reason is in the row.`,
        ),
      )
    }
  }
  const isOwn = ({ product }: ProductState) => product.id === current().product.id
  /** A text about what another operator has stored in the cells of this row. */
  const explainOvertaken = (variant: Variant, mine: Cells | undefined) => {
    const before = storedCells(variant)
    const known = stored.find(({ key }) => key === variant.key)
    const now = known === undefined ? null : storedCells(known)
    if (before === null || now === null) return t`It is archived now.`
    const news = columns()
      .map((column) => [title(column), readCell(now, column), readCell(before, column), readCell(mine ?? before, column)] as const)
      .filter(([, text, old, typed]) => text !== old && text !== typed)
      .map(([name, text]) => t`${name} is ${text || t`empty`} now`)
    return t`${[t`Changed meanwhile`, ...(news.length === 0 ? [] : [news.join(', ')])].join(': ')}. Look at it, and save again to replace that.`
  }
  /** The variants' group. A product without one gets it before variants are created, so each belongs to a group. */
  async function groupFor(sent: readonly Variant[]): Promise<string> {
    const { product, etag } = current()
    const group = product.group ?? product.slug.slice(0, MAX_GROUP)
    if (product.group !== null || sent.every(({ state }) => state !== null)) return group
    try {
      await changeOwn(product.id, etag, { group })
    } catch (error) {
      if (!isProblem(error, 'precondition_failed')) throw error
      throw new Error(t`Nothing was saved: the product was changed meanwhile. Look at it, and save again.`)
    }
    return group
  }
  /** Changes the page's product. Its form takes over other changes only while it has none of its own. */
  async function changeOwn(id: string, etag: string, body: ProductChange): Promise<void> {
    try {
      await productForm.follow(await changeProduct(id, etag, body))
    } catch (error) {
      if (!isProblem(error, 'precondition_failed')) throw error
      if (productForm.isChanged())
        throw new Error(t`The product was changed meanwhile. Save its form first: it explains what has changed. Then save the variants.`)
      await productForm.follow(await readState(id))
      throw error
    }
  }
  const create = async (cells: Cells, group: string): Promise<string> => {
    const {
      name,
      description,
      categories,
      brand,
      images,
      attributes = {},
      seo,
      availability_text,
      translations,
      status,
      published_at,
      unpublished_at,
    } = current().product
    const shared = { name, description, brand, images, attributes, seo, availability_text, translations, group }
    const body = {
      ...shared,
      ...{ status, published_at, unpublished_at },
      categories: categories.map(({ slug }) => slug),
      ...changesOf(cells, null, current().product),
      ...stockOf(cells),
    }
    return (await read(api.POST('/admin/products', { body: body as Schemas['NewProduct'] }))).id
  }
  const change = async (variant: Variant, state: ProductState, group: string) => {
    const { stock } = variant
    const { product, etag } = state
    const cells = mergeCells(cellsOf(product, stock?.available), edited.get(variant.key))
    const body = { ...changesOf(cells, cellsOf(product, null), product), ...(product.group === group ? {} : { group }) }
    if (Object.keys(body).length > 0) await (isOwn(state) ? changeOwn : changeProduct)(product.id, etag, body)
    if (stock === undefined || cells.stock === cellsOf(product, stock.available).stock) return
    const params = { path: { id: product.id }, header: { 'if-match': `"${stock.version}"` } }
    await api.PUT('/admin/products/{id}/stock', { params, body: { stock: stockOf(cells).stock ?? null } })
  }

  const form = createForm(context, { edits: true, submit: t`Save variants`, onSubmit: save })
  const title = (column: GridColumn) =>
    column.kind === 'sku' ? t`SKU` : column.kind === 'stock' ? t`Stock` : column.kind === 'price' ? t`Price ${column.name}` : column.name
  const row = (variant: Variant, index: number) => {
    const cells = cellsFor(variant)
    const { state, key } = variant
    const label = (column: GridColumn) => t`${title(column)} of variant ${index + 1}`
    const input = (column: GridColumn) =>
      column.kind === 'stock' && state !== null && !may('stock:write')
        ? cells.stock
        : cell(
            {
              label: label(column),
              value: readCell(cells, column),
              required: column.kind === 'sku',
              numeric: column.kind === 'price' || column.kind === 'stock',
            },
            (text) => {
              edit(variant, column, text)
              changed()
            },
          )
    const fault = faults.get(key)
    return html`<tr data-changed=${isChanged(variant) ? key : nothing}>
      ${columns().map((column, at) => html`<td data-row=${index} data-column=${at}>${input(column)}</td>`)}
      <td>${last(variant)}${fault === undefined ? nothing : html` <span class="error" role="alert">${fault}</span>`}</td>
    </tr>`
  }
  const last = (variant: Variant): Content => {
    const { state } = variant
    if (state === null)
      return html`${badge(t`new`, 'waiting')} <button type="button" aria-label=${t`Remove ${cellsFor(variant).sku}`} @click=${() => remove(variant)}>×</button>`
    if (state.product.id === current().product.id) return html`<span class="muted">this product</span>`
    return html`<a href=${productAddress(state.product.id)}>Open</a>`
  }
  const grid = () => html`<div class="scroll" tabindex="0" role="region" aria-label="Variants" @paste=${paste}>
    <table class="grid"><thead><tr>${columns().map((column) => html`<th scope="col">${title(column)}</th>`)}<th scope="col">State</th></tr></thead>
    <tbody>${repeat(variants(), ({ key }) => key, row)}</tbody></table></div>`
  const option = ({ name, values }: { name: string; values: string }, index: number) => {
    const set = (part: Partial<{ name: string; values: string }>) => {
      options = options.map((one, at) => (at === index ? { ...one, ...part } : one))
      update()
    }
    return html`<div class="row"><label>Option ${cell({ label: t`Option ${index + 1}`, value: name, maxLength: 40 }, (next) => set({ name: next }))}</label>
      <label>Values, with commas between them ${cell({ label: t`Values of option ${index + 1}`, value: values }, (next) => set({ values: next }))}</label></div>`
  }
  const maker = () => html`<details ?open=${variants().length < 2}><summary>Make variants of options</summary><div class="rows">
    ${options.map(option)}
    <div class="actions"><button type="button" @click=${() => {
      options = [...options, { name: '', values: '' }]
      update()
    }}>Another option</button>
    <button type="button" ?disabled=${combine(options).length === 0} @click=${makeRows}>Make ${combine(options).length || ''} rows</button></div></div></details>`
  const shared = sharedContent(
    () => current().product.group,
    async () => {
      await productForm.follow(await readState(current().product.id))
      await load()
    },
    context,
  )
  const hint = note(
    t`Paste rows of a spreadsheet into the table: its columns from the cell on, or with a first row of titles such as Size, SKU, Price, Stock.`,
  )
  return {
    refresh() {
      const { product } = current()
      const known = stored.find(({ key }) => key === product.id)
      if (known === undefined || known.state?.product.group !== product.group) {
        load().catch((error: unknown) => signal.aborted || report(error))
        return
      }
      stored = stored.map((variant) => (variant === known ? { ...known, state: current() } : variant))
      changed()
      shared.refresh().catch((error: unknown) => signal.aborted || report(error))
    },
    view: (): Content =>
      html`${card(t`Variants`, html`<div @reset=${discard}>${form(html`${stored.length === 0 ? loading() : grid()}${hint}${maker()}`)}</div>`)}
      ${shared.view()}`,
  }
}

/** The changes of a stored variant, or all values of a new one. Throws for invalid values. */
function changesOf(cells: Cells, before: Cells | null, product: Product): ProductChange {
  const currencies = Object.keys(cells.prices).filter((currency) => cells.prices[currency]?.trim() !== '')
  const own = product.price.currency
  const amountIn = (currency: string) => readAmount(cells.prices[currency] ?? '', currency, t`price in ${currency}`)
  const isSame = (currency: string) => before?.prices[currency] === cells.prices[currency]
  const others = currencies.filter((currency) => currency !== own)
  const options = Object.fromEntries(
    Object.entries(cells.options).flatMap(([name, value]) => (value.trim() === '' ? [] : [[name, value.trim()]])),
  )
  const compareAt = (currency: string, amount: number) => {
    const kept = product.prices.find((price) => price.currency === currency)?.compare_at ?? null
    return before !== null && kept !== null && kept > amount ? kept : null
  }
  return {
    ...(before?.sku === cells.sku ? {} : { sku: cells.sku }),
    ...(before !== null && isSameOptions(before.options, options) ? {} : { options }),
    ...(isSame(own) ? {} : { price: { amount: amountIn(own), currency: own } }),
    ...(before !== null && Object.keys({ ...before.prices, ...cells.prices }).every((currency) => currency === own || isSame(currency))
      ? {}
      : {
          prices: others.map((currency) => ({ currency, amount: amountIn(currency), compare_at: compareAt(currency, amountIn(currency)) })),
        }),
  }
}

function stockOf({ stock }: Cells): { stock?: number } {
  const text = stock.trim()
  if (text === '') return {}
  if (!/^\d+$/.test(text)) throw new Error(t`The stock must be a whole number, or empty for a stock that is not tracked.`)
  return { stock: Number(text) }
}

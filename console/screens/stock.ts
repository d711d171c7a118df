import { addressOf } from '../kit/address.ts'
import { api, isProblem, poll, read, type Schemas } from '../kit/api.ts'
import { createForm, entered, field } from '../kit/form.ts'
import { badge, type Column, type Content, card, html, loading, note, nothing, table, time } from '../kit/html.ts'
import { numberText, t, word } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { newReference } from './order-parts.ts'

type Stock = Schemas['Stock']
type Adjustment = Schemas['StockAdjustment']

const POLL_SECONDS = 3
const PAGE = 20

/** A product's stock, which keeps itself up to date, the two ways to change it, and its history. */
export function stockCards(productId: string, context: ScreenContext): () => Content {
  const { signal, may, report, update } = context
  const params = { path: { id: productId } }
  const history = stockHistory(productId, context)
  let current: Stock | null = null
  const show = (stock: Stock) => {
    const isOther = current?.version !== stock.version
    current = stock
    if (isOther) history.refresh()
    update()
  }
  void poll((init) => api.GET('/admin/products/{id}/stock', { ...init, params }), {
    seconds: POLL_SECONDS,
    signal,
    onChange: show,
    onError: report,
    endsAt: [404],
  })
  const forms = may('stock:write') ? [countForm(productId, context, () => current, show), adjustmentForm(productId, context, show)] : []
  return () => html`
    ${card(
      t`Stock`,
      html`<p class="level" role="status">${current === null ? t`Loading …` : levelOf(current)}</p>
      <div class="cards">${forms.map((form) => form())}</div>`,
      { wide: true },
    )}
    ${card(t`Changes of stock`, history.view(current), { wide: true })}`
}

function levelOf({ available }: Stock): Content {
  return html`<strong>${available === null ? t`Not tracked` : t`${available} available`}</strong>
    ${available === 0 ? badge(t`sold out`, 'bad') : nothing}`
}

/**
 * Sets the number of units. The store refuses it when the stock has changed since the operator began to type, and the
 * number stays for checking.
 */
function countForm(id: string, context: ScreenContext, current: () => Stock | null, show: (stock: Stock) => void): () => Content {
  const path = { id }
  let counted: Stock | null = null
  const begin = () => {
    counted ??= current()
  }
  const set = async (data: FormData, form: HTMLFormElement) => {
    begin()
    const { stock: count = '', reason = '' } = entered(data)
    const before = counted
    if (before === null) throw new Error(t`The stock is not known yet.`)
    const isUntracked = data.has('untracked')
    if (count === '' && !isUntracked) throw new Error(t`Enter the number that you have counted.`)
    const body = { stock: isUntracked ? null : Number(count), ...(reason === '' ? {} : { reason }) }
    try {
      const header = { 'if-match': `"${before.version}"` }
      const stock = await read(api.PUT('/admin/products/{id}/stock', { params: { path, header }, body }))
      context.tell(stock.available === null ? t`The stock is not tracked any more.` : t`The stock is ${stock.available}.`)
      show(stock)
      form.reset()
      counted = null
    } catch (error) {
      if (!isProblem(error, 'precondition_failed')) throw error
      const now = await read(api.GET('/admin/products/{id}/stock', { params: { path } }))
      show(now)
      counted = now
      throw new Error(
        t`Nothing was set: the stock was ${levelText(before)} when you began and is ${levelText(now)} now. Check your number and set it again.`,
      )
    }
  }
  const form = createForm(context, { submit: t`Set stock`, onSubmit: set })
  return () =>
    html`<div @input=${begin}>${form(html`
    ${field(t`Set to`, html`<input name="stock" type="number" min="0" step="1">`, t`If the stock has changed since you began to type, nothing is set.`)}
    <label class="choice"><input type="checkbox" name="untracked"> Not tracked: it never sells out</label>
    ${field(t`Reason of the count`, html`<input name="reason" maxlength="500" autocomplete="off">`)}`)}</div>`
}

function levelText({ available }: Pick<Stock, 'available'>): string {
  return available === null ? t`not tracked` : numberText(available)
}

/** Adds or removes units. The reference makes this happen once, however often it is sent. */
function adjustmentForm(id: string, context: ScreenContext, show: (stock: Stock) => void): () => Content {
  const params = { path: { id } }
  let proposed = newReference()
  const adjust = async (data: FormData, form: HTMLFormElement) => {
    const { delta = '', reference = '', adjustment_reason: reason = '' } = entered(data)
    const body = { delta: Number(delta), reference, ...(reason === '' ? {} : { reason }) }
    const { data: adjustment, response } = await api.POST('/admin/products/{id}/stock/adjustments', { params, body })
    show(await read(api.GET('/admin/products/{id}/stock', { params })))
    proposed = newReference()
    context.update()
    await new Promise((resolve) => setTimeout(resolve))
    form.reset()
    // The message comes last, so nothing that is entered after it appears is lost.
    context.tell(
      response.status === 200
        ? t`This was booked before under the reference ${reference}. Nothing was changed.`
        : body.delta > 0
          ? t`Added ${body.delta}: the stock is ${adjustment?.after}.`
          : t`Removed ${-body.delta}: the stock is ${adjustment?.after}.`,
    )
  }
  const form = createForm(context, { submit: t`Adjust stock`, onSubmit: adjust })
  return () =>
    form(html`
    ${field(t`Adjust by`, html`<input name="delta" type="number" step="1" required>`, t`Units added, or removed with a minus.`)}
    ${field(t`Reference`, html`<input name="reference" maxlength="100" autocomplete="off" required .defaultValue=${proposed}>`, t`For example the number of the delivery note. Each reference is booked once.`)}
    ${field(t`Reason of the adjustment`, html`<input name="adjustment_reason" maxlength="500" autocomplete="off">`)}`)
}

/** Units that orders took or returned between two other changes. */
interface Sold {
  kind: 'orders'
  before: number
  after: number
  from: string
  /** It is null for the period that lasts until now. */
  until: string | null
}

/**
 * The stock changes by people, files and keys, newest first, and between them the units that orders took or returned.
 */
function stockHistory(id: string, { signal, names, may, report, update, act }: ScreenContext) {
  let entries: readonly Adjustment[] | null = null
  let cursor: string | null = null
  const load = async (after: string | null) => {
    const query = { limit: PAGE, ...(after === null ? {} : { cursor: after }) }
    const page = await read(api.GET('/admin/products/{id}/stock/adjustments', { params: { path: { id }, query }, signal }))
    entries = after === null ? page.data : [...(entries ?? []), ...page.data]
    cursor = page.next_cursor
    update()
  }
  const ordersLink = ({ from, until }: Sold) =>
    may('orders:read') ? html`<a href=${addressOf('orders', { product_id: id, from, to: until })}>the orders</a>` : t`orders`
  const number = (value: number | null) => (value === null ? t`not tracked` : numberText(value))
  const columns: Column<Adjustment | Sold>[] = [
    {
      title: t`When`,
      cell: (entry) =>
        entry.kind === 'orders' ? html`${time(entry.from)} – ${entry.until === null ? t`now` : time(entry.until)}` : time(entry.created_at),
    },
    { title: t`Kind`, cell: (entry) => (entry.kind === 'orders' ? ordersLink(entry) : word(entry.kind)) },
    { title: t`Stock before`, number: true, cell: ({ before }) => number(before) },
    { title: t`Stock after`, number: true, cell: ({ after }) => number(after) },
    { title: t`Difference`, number: true, cell: differenceText },
    { title: t`Reference`, cell: (entry) => (entry.kind === 'orders' ? '' : (entry.reference ?? '–')) },
    { title: t`Reason`, cell: (entry) => (entry.kind === 'orders' ? '' : (entry.reason ?? '–')) },
    { title: t`Who`, cell: (entry) => (entry.kind === 'orders' ? t`customers` : names.actor(entry.actor)) },
  ]
  return {
    refresh: () => void load(null).catch((error: unknown) => signal.aborted || report(error)),
    view(current: Stock | null): Content {
      if (entries === null) return loading()
      if (entries.length === 0) return note(t`None yet.`)
      return html`${table(t`Changes of stock`, columns, withOrders(entries, current))}
        ${cursor === null ? nothing : html`<button type="button" @click=${act(() => load(cursor))}>Older changes</button>`}`
    },
  }
}

function differenceText({ before, after }: { before: number | null; after: number | null }): string {
  if (before === null || after === null) return '–'
  return `${after > before ? '+' : ''}${numberText(after - before)}`
}

function withOrders(entries: readonly Adjustment[], current: Stock | null): (Adjustment | Sold)[] {
  return entries.flatMap((entry, index) => {
    const newer = entries[index - 1]
    const level = newer === undefined ? current?.available : newer.before
    const until = newer?.created_at ?? null
    if (entry.after === null || level === null || level === undefined || level === entry.after) return [entry]
    return [{ kind: 'orders' as const, before: entry.after, after: level, from: entry.created_at, until }, entry]
  })
}

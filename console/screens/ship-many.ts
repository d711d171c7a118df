import type { OrderStatus } from '../../src/orders/order-status.ts'
import { explain, type Schemas } from '../kit/api.ts'
import { readCells } from '../kit/csv.ts'
import { type Dialog, openDialog } from '../kit/dialog.ts'
import { createForm } from '../kit/form.ts'
import { html, live, note, nothing, repeat } from '../kit/html.ts'
import { plural, t, word } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { doneText, progress } from './move-many.ts'
import { type MoveResult, moveMany, readOrder } from './order-changes.ts'
import { newReference, type Order } from './order-parts.ts'
import { fillTable, type Parcel } from './parcel-table.ts'

interface Row extends Parcel {
  order: Order
  /** The reason why the order was not shipped. */
  fault: string
}

/**
 * Asks for each order's carrier and parcel number, and ships the orders. Refused orders stay in the table with their
 * reasons. `onEnd` gets the orders that were not shipped.
 */
export function openShipMany(
  orders: readonly Order[],
  to: OrderStatus,
  { signal, tell, keep }: ScreenContext,
  onEnd: (left: readonly Order[]) => void,
): void {
  const title = plural(orders.length, t`Ship ${orders.length} order`, t`Ship ${orders.length} orders`)
  // All attempts have the same reference, so repeating one ships an order once.
  const reference = newReference()
  const results: MoveResult[] = []
  let rows: readonly Row[] = orders.map((order) => ({ order, number: order.number, carrier: '', parcel: '', url: '', fault: '' }))
  let filled = ''
  let news = ''
  let hasNone = false

  const canShip = ({ order }: Row) => order.allowed_transitions.includes(to)
  const ready = () => rows.filter((row) => canShip(row) && (row.parcel !== '' || hasNone))
  const transitionOf = ({ carrier, parcel, url }: Row): Schemas['Transition'] => {
    const tracking = { carrier, number: parcel, ...(url === '' ? {} : { url }) }
    return { to, reference, ...(parcel === '' ? {} : { tracking }) }
  }

  /** Explains a refusal, or an earlier shipment with another number. The row then has the current order. */
  const explainRow = async (row: Row, result: MoveResult): Promise<Row | null> => {
    if (isNew(result)) return null
    const order = await readOrder(row.order.id)
    const number = order.parcels.at(-1)?.tracking?.number ?? ''
    if (result.ok)
      return number === row.parcel ? null : { ...row, order, fault: t`It was shipped before, with the number ${number || t`none`}.` }
    const now = order.version === row.order.version ? [] : [t`It is ${word(order.status)} now.`]
    return { ...row, order, fault: [result.detail, ...now].join(' ') }
  }
  const send = async (update: () => void): Promise<void> => {
    const sent = ready()
    if (sent.length === 0) throw new Error(t`Enter the number of a parcel.`)
    const lacking = sent.find(({ carrier, parcel }) => parcel !== '' && carrier === '')
    if (lacking !== undefined) throw new Error(t`Order ${lacking.order.number} has a parcel number without a carrier.`)
    let refused = 0
    try {
      const kept = new Map<string, MoveResult>()
      await moveMany(
        sent.map((row) => ({ order: row.order, transition: transitionOf(row) })),
        (part) => {
          for (const { move, result } of part) kept.set(move.order.id, result)
          results.push(...part.map(({ result }) => result).filter(({ ok }) => ok))
          // Shipped orders leave the table at once, because a later request may fail.
          rows = rows.filter(({ order }) => !isNew(kept.get(order.id)))
          update()
        },
      ).finally(async () => {
        const next: (Row | null)[] = []
        for (const row of rows) {
          const result = kept.get(row.order.id)
          next.push(result === undefined ? row : await explainRow(row, result))
        }
        rows = next.filter((row) => row !== null)
        refused = [...kept.values()].filter(({ ok }) => !ok).length
      })
    } catch (error) {
      throw new Error(t`${explain(error)} ${results.length} of ${orders.length} are shipped. Sent again, no order is shipped twice.`)
    }
    news = doneText(results, to, refused)
  }

  const content = ({ close, leave, update }: Dialog) => {
    const onSubmit = async () => {
      await send(update)
      if (rows.length > 0) return
      tell(news)
      close()
    }
    const form = createForm(
      { update },
      {
        ...{ onSubmit, submit: t`Ship` },
        actions: (isSending) => html`<button type="button" ?disabled=${isSending} @click=${leave}>Close</button>`,
      },
    )
    const fillDown = () => {
      const carrier = rows.find((row) => row.carrier !== '')?.carrier ?? ''
      for (const row of rows) if (row.carrier === '' || row.carrier === filled) row.carrier = carrier
      filled = carrier
      update()
    }
    const fill = (cells: readonly (readonly string[])[], from: { row: number; field: 'carrier' | 'parcel' }) => {
      news = fillTable(rows, cells, from)
      update()
    }
    const onPaste = (event: ClipboardEvent) => {
      const { dataset } = event.target as HTMLElement
      const text = event.clipboardData?.getData('text/plain') ?? ''
      // The browser pastes a single value where the cursor is.
      if (dataset.row === undefined || !/[\n\t]/.test(text.trim())) return
      event.preventDefault()
      fill(readCells(text), { row: Number(dataset.row), field: dataset.field === 'carrier' ? 'carrier' : 'parcel' })
    }
    const onFile = async ({ currentTarget }: Event) => {
      const [file] = (currentTarget as HTMLInputElement).files ?? []
      if (file !== undefined) fill(readCells(await file.text()), { row: 0, field: 'parcel' })
    }
    const cell = (row: Row, index: number, field: 'carrier' | 'parcel') => {
      const { number } = row.order
      const label = field === 'carrier' ? t`Carrier of order ${number}` : t`Parcel number of order ${number}`
      const input = ({ currentTarget }: Event) => {
        row[field] = (currentTarget as HTMLInputElement).value.trim()
        update()
      }
      return html`<input aria-label=${label} maxlength="100" autocomplete="off" data-row=${index} data-field=${field}
        ?disabled=${!canShip(row)} .value=${live(row[field])} @change=${input} @keydown=${nextRow}>`
    }
    const line = (row: Row, index: number) => html`<tr>
      <td>${row.order.number}</td>
      <td>${row.order.shipping_address?.name ?? '–'}<small class="muted">${row.order.shipping_address?.country}</small></td>
      <td>${cell(row, index, 'carrier')}</td>
      <td>${cell(row, index, 'parcel')}${row.fault === '' ? nothing : html`<small class="error">${row.fault}</small>`}</td>
    </tr>`
    const setNone = ({ currentTarget }: Event) => {
      hasNone = (currentTarget as HTMLInputElement).checked
      update()
    }
    const withoutNumber = () => rows.filter((row) => canShip(row) && row.parcel === '').length
    const withoutField = () => html`<label class="choice"><input type="checkbox" .checked=${hasNone} @change=${setNone}>
      Also ship orders without a parcel number (${withoutNumber()})</label>`
    const fileField = html`<div class="field"><label><span>CSV file of the carrier</span>
      <input type="file" accept=".csv,.txt,.tsv,text/csv" @change=${onFile}></label></div>`
    const intro = t`Paste a column of numbers, or columns with order, carrier and number. Enter goes to the next row, as scanners do.`
    return () =>
      form(html`
      ${note(intro)}
      ${fileField}
      <div class="scroll" tabindex="0" role="region" aria-label="Parcels"><table class="parcels" @paste=${onPaste}>
        <caption class="hidden">Parcels</caption>
        <thead><tr><th scope="col">Order</th><th scope="col">Name</th>
          <th scope="col">Carrier <button type="button" @click=${fillDown}>Fill down</button></th>
          <th scope="col">Parcel number</th></tr></thead>
        <tbody>${repeat(rows, ({ order }) => order.id, line)}</tbody>
      </table></div>
      ${withoutNumber() === 0 && !hasNone ? nothing : withoutField()}
      ${progress(results.length, orders.length)}
      <p role="status">${news === '' ? t`${ready().length} of ${rows.length} are ready.` : news}</p>`)
  }
  const unsent = () => rows.filter((row) => canShip(row) && row.parcel !== '').length
  const lost = () =>
    unsent() === 0 ? '' : plural(unsent(), t`${unsent()} parcel number is not sent.`, t`${unsent()} parcel numbers are not sent.`)
  const onClose = () => {
    const left = rows.map(({ order }) => order)
    rows = []
    if (results.length > 0) onEnd(left)
  }
  // The form does not count the table's cells, so this asks before the operator leaves the page.
  keep(lost)
  openDialog(title, signal, content, { wide: true, onClose, lost })
}

/** Whether this request has shipped the order. */
function isNew(result: MoveResult | undefined): boolean {
  return result?.ok === true && !result.repeated
}

/** Enter moves to the row below. A scanner sends Enter after each number. */
function nextRow(event: KeyboardEvent): void {
  if (event.key !== 'Enter') return
  event.preventDefault()
  const input = event.currentTarget as HTMLInputElement
  const { row, field } = input.dataset
  const next = input.form?.querySelector<HTMLElement>(`[data-row="${Number(row) + 1}"][data-field="${field}"]`)
  ;(next ?? input.form?.querySelector<HTMLElement>('button[type=submit]'))?.focus()
}

import { type OrderStatus, type PartMove, ruleOf } from '../../src/orders/order-status.ts'
import { amountText } from '../kit/amount.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { openFormDialog } from '../kit/dialog.ts'
import { choice, field } from '../kit/form.ts'
import { type Content, html, money, note, nothing } from '../kit/html.ts'
import { capitalized, plural, t, word } from '../kit/language.ts'
import { type Attempts, atVersion, changeOrder } from './order-changes.ts'
import { amountField, causeFields, readDetails, readMoney, restockField, trackingFields } from './order-fields.ts'
import { attributeTexts, COUNT_LEFT, countLeft, type Order } from './order-parts.ts'

type Item = Schemas['OrderItem']

interface MoveDialog {
  title: string
  to: OrderStatus
  signal: AbortSignal
  /** Makes the move. The dialog stays open when it throws. */
  onMove: (transition: Schemas['Transition']) => Promise<void>
  /** Content below the fields. */
  more?: () => Content
  isAsking?: (update: () => void) => void
}

/** A dialog that asks for the details of a transition of whole orders and makes it. */
export function openMoveDialog({ title, to, signal, onMove, more = () => nothing, isAsking }: MoveDialog): void {
  const { moves, action, phase } = ruleOf(to)
  const onSubmit = (data: FormData) => onMove({ to, ...readDetails(data), ...(data.get('restock') === null ? {} : { restock: true }) })
  const submit = capitalized(word(action))
  openFormDialog({ title, submit, danger: phase === 'ended', signal, onSubmit }, ({ update }) => {
    isAsking?.(update)
    const cause = causeFields()
    return () => html`${cause}${moves === 'returned' ? restockField() : nothing}${more()}`
  })
}

const PARTS = {
  shipped: { path: 'shipments', title: (order: string) => t`Ship order ${order}`, submit: t`Ship` },
  cancelled: { path: 'cancellations', title: (order: string) => t`Cancel units of order ${order}`, submit: t`Cancel units` },
  returned: { path: 'returns', title: (order: string) => t`Return of order ${order}`, submit: t`Return` },
} as const satisfies Readonly<Record<PartMove, { path: string; title: (order: string) => string; submit: string }>>

interface PartDialog {
  signal: AbortSignal
  /** Whether a return can also record a refund. */
  mayRefund: boolean
  /** Called with the changed order and a text about what was done. */
  onDone: (order: Order, news: string) => void
}

/**
 * A dialog that asks for the units to ship, cancel or return, and for further details. A new parcel has all units by
 * default.
 */
export function openPartDialog({ seen, make }: Attempts, move: PartMove, { signal, mayRefund, onDone }: PartDialog): void {
  const order = seen()
  const { path, title, submit } = PARTS[move]
  const left = choicesLeft(order, move)
  const refund = move === 'returned' && mayRefund && order.refundable.length > 0 ? refundOfReturn(order) : null

  async function change(data: FormData, at: Order): Promise<void> {
    const lines = unitsIn(data, left)
    if (lines.length === 0) throw new Error(t`Choose at least one unit.`)
    const { tracking, ...details } = readDetails(data)
    const back = refund?.read(data, lines) ?? null
    const restock = data.get('restock') !== null
    const made =
      path === 'returns'
        ? { path, body: { lines, restock, ...details } }
        : path === 'shipments'
          ? { path, body: { lines, ...details, ...(tracking === undefined ? {} : { tracking }) } }
          : { path, body: { lines, ...details } }
    let changed = await changeOrder(at, made, move)
    const count = lines.reduce((sum, { quantity }) => sum + quantity, 0)
    const state = word(move)
    let news = plural(count, t`${count} unit was ${state}.`, t`${count} units were ${state}.`)
    if (back !== null) {
      // Both requests have the same reference, so repeating them changes nothing.
      const body = { ...back, ...details, reference: details.reference ?? '' }
      changed = await read(api.POST('/admin/orders/{id}/refunds', { params: atVersion(changed), body }))
      news = t`${news} ${money(back.amount)} is recorded as paid back.`
    }
    onDone(changed, news)
  }

  const onSubmit = (data: FormData) => make((at) => change(data, at))
  openFormDialog({ title: title(order.number), submit, danger: move === 'cancelled', signal, onSubmit }, () => {
    const cause = causeFields()
    const all = (event: Event) => {
      const { form } = event.currentTarget as HTMLButtonElement
      for (const input of form?.querySelectorAll<HTMLInputElement>('input[type=number]') ?? []) input.value = input.max
      refund?.recount(form)
    }
    const recount = ({ currentTarget }: Event) => refund?.recount((currentTarget as Element).closest('form'))
    const units = () => {
      const now = choicesLeft(seen(), move)
      return [...left].map(([id, { item, count }]) => {
        const most = now.get(id)?.count ?? 0
        return field(
          [`${item.name} (${item.sku})`, ...attributeTexts(item)].join(', '),
          html`<input type="number" name=${id} min="0" max=${most} step="1" required autocomplete="off"
            .defaultValue=${move === 'shipped' ? String(count) : '0'}>`,
          t`At most ${most}.`,
        )
      })
    }
    return () => html`
      <fieldset class="fields" @input=${recount}><legend>Units</legend>${units()}
        ${countLeft(order, move) > 1 ? html`<div><button type="button" @click=${all}>All units</button></div>` : nothing}
      </fieldset>
      ${move === 'shipped' ? trackingFields() : nothing}
      ${move === 'returned' ? restockField() : nothing}
      ${refund?.fields() ?? nothing}
      ${cause}`
  })
}

function unitsIn(data: FormData, left: ReadonlyMap<string, Choice>): Schemas['LineQuantity'][] {
  return [...left].map(([name, { part }]) => ({ ...part, quantity: Number(data.get(name)) })).filter(({ quantity }) => quantity > 0)
}

interface Choice {
  part: Omit<Schemas['LineQuantity'], 'quantity'>
  item: Item
  count: number
}

/**
 * The choices by the name of their field. Lines of a product are one choice, whose units the store takes from the first
 * line on, unless they have attributes.
 */
function choicesLeft({ items }: Order, move: PartMove): Map<string, Choice> {
  const byLine = new Set(items.flatMap(({ product_id, attributes }) => (attributes === undefined ? [] : [product_id])))
  const found = new Map<string, Choice>()
  for (const [line, item] of items.entries()) {
    const { product_id } = item
    const [name, part] = byLine.has(product_id) ? [`${product_id} ${line}`, { product_id, line }] : [product_id, { product_id }]
    const count = COUNT_LEFT[move](item) + (found.get(name)?.count ?? 0)
    if (count > 0) found.set(name, { part, item: found.get(name)?.item ?? item, count })
  }
  return found
}

/** The price of returned units. The first lines of a product count first, as in the store. */
function priceOf({ items }: Order, lines: readonly Schemas['LineQuantity'][]): number {
  let price = 0
  for (const { product_id, quantity, line } of lines) {
    let rest = quantity
    for (const item of items.filter((each, place) => each.product_id === product_id && [undefined, place].includes(line))) {
      const units = Math.min(rest, COUNT_LEFT.returned(item))
      price += units * item.unit_price.amount
      rest -= units
    }
  }
  return price
}

/**
 * The proposed refund of a return: the price of its units and chosen charges, until the operator types another amount.
 */
function refundOfReturn(order: Order) {
  const { refundable, total, adjustments } = order
  const { currency } = total
  const charges = adjustments.filter(({ amount, kind }) => amount.amount > 0 && kind !== 'tax')
  const most = Math.max(...refundable.map(({ left }) => left.amount))
  const left = choicesLeft(order, 'returned')
  let typed = false

  const recount = (form: HTMLFormElement | null) => {
    const input = form?.querySelector<HTMLInputElement>('[name=refund_amount]')
    if (form === null || !input || typed) return
    const data = new FormData(form)
    const extra = data.getAll('charge').reduce((sum, version) => {
      const charge = charges.find((each) => each.version === Number(version))
      return sum + (charge?.amount.amount ?? 0)
    }, 0)
    const amount = Math.min(most, priceOf(order, unitsIn(data, left)) + extra)
    input.value = amount === 0 ? '' : amountText({ amount, currency })
  }
  const addCharge = ({ currentTarget }: Event) => recount((currentTarget as HTMLInputElement).form)
  const type = () => {
    typed = true
  }
  const hint = t`At most ${money({ amount: most, currency })}. Empty: nothing yet.`
  const fields = () => html`<fieldset class="fields"><legend>Money</legend>
    ${charges.map(
      ({ version, label, amount }) =>
        html`<label class="choice"><input type="checkbox" name="charge" value=${version} @change=${addCharge}>
          Pay ${label} back, too: ${money({ amount: amount.amount, currency })}</label>`,
    )}
    <div @input=${type}>${amountField({ name: 'refund_amount', label: t`Paid back`, hint, isRequired: false })}</div>
    ${paymentChoice(order)}
    ${note(t`The store moves no money: pay it back with your payment provider. It is recorded here, and mails show it.`)}
  </fieldset>`
  const readRefund = (data: FormData, lines: readonly Schemas['LineQuantity'][]) => {
    const amount = String(data.get('refund_amount') ?? '').trim()
    if (amount === '') return null
    return { amount: readMoney(amount, currency), payment: readPayment(order, data), lines: [...lines] }
  }
  return { recount, fields, read: readRefund }
}

/** A choice among several refundable payments. */
export function paymentChoice({ refundable }: Order): Content {
  const names = refundable.map(({ provider, reference }, index) => [String(index), `${provider} ${reference}`] as const)
  return names.length < 2 ? nothing : field(t`Payment`, choice({ name: 'refund_payment' }, names, '0'))
}

export function readPayment({ refundable }: Order, data: FormData): Schemas['PaymentName'] {
  const { provider = '', reference = '' } = refundable[Number(data.get('refund_payment') ?? 0)] ?? {}
  return { provider, reference }
}

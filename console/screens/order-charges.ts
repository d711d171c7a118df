import { ruleOf } from '../../src/orders/order-status.ts'
import { amountText, parseAmount } from '../kit/amount.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { openFormDialog } from '../kit/dialog.ts'
import { choice, field } from '../kit/form.ts'
import { type Content, card, facts, html, money, note, nothing, time } from '../kit/html.ts'
import { t, word } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { atVersion } from './order-changes.ts'
import { paymentChoice, readPayment } from './order-dialogs.ts'
import { amountField, causeFields, readDetails, readMoney } from './order-fields.ts'
import { newReference, type Order, sumsOf } from './order-parts.ts'

type Kind = Schemas['NewAdjustment']['kind']

const KINDS = ['shipping', 'discount', 'tax', 'fee'] as const satisfies readonly Kind[]
const STATES = [
  'pending',
  'authorized',
  'failed',
  'paid',
  'partially_refunded',
  'refunded',
] as const satisfies readonly Schemas['Payment']['state'][]

/** What an order costs, what was paid and what is due, with controls for operators who may change that. */
export function orderCharges(context: ScreenContext, onChange: () => void): (order: Order) => Content {
  const { signal, tell, act } = context
  const mayAdjust = context.may('orders:adjust')

  const voidCharge = (order: Order, { version, label }: Schemas['Adjustment']) =>
    act(async () => {
      const params = { path: { id: order.id, version: String(version) } }
      const { total } = await read(api.DELETE('/admin/orders/{id}/adjustments/{version}', { params }))
      tell(t`${label} is void. The total is ${money(total)} now.`)
      onChange()
    })
  const askForCharge = (order: Order) =>
    openChargeDialog(order, signal, ({ total }) => {
      tell(t`The total is ${money(total)} now.`)
      onChange()
    })
  const askForPayment = (order: Order) =>
    openPaymentDialog(order, signal, ({ payment }) => {
      if (payment !== null) tell(t`The payment is ${word(payment.state)}.`)
      onChange()
    })
  const askForRefund = (order: Order) =>
    openRefundDialog(order, signal, ({ refunded }) => {
      tell(refunded === null ? t`The refund is recorded.` : t`${money(refunded)} of the order is refunded now.`)
      onChange()
    })

  const controls = (order: Order, isOpen: boolean) => html`<div class="actions">
    ${isOpen ? html`<button type="button" @click=${() => askForCharge(order)}>Add a charge…</button>` : nothing}
    <button type="button" @click=${() => askForPayment(order)}>Record payment…</button>
    ${order.refundable.length > 0 ? html`<button type="button" @click=${() => askForRefund(order)}>Refund…</button>` : nothing}
  </div>`
  const charge = (order: Order, each: Schemas['Adjustment'], isOpen: boolean) => {
    const label = `${each.label} (${word(each.kind)})`
    const button = html`<button type="button" aria-label="Void ${each.label}" @click=${voidCharge(order, each)}>Void</button>`
    return sumRow(html`${label} ${isOpen ? button : nothing}`, money(each.amount))
  }

  return (order) => {
    // An ended order takes only payments and refunds.
    const isOpen = mayAdjust && ruleOf(order.status).phase !== 'ended'
    return card(
      t`Sums`,
      html`<table class="sums"><caption class="hidden">Sums</caption><tbody>
        ${sumRow(t`Units`, amountOf(order, sumsOf(order).lines))}
        ${order.adjustments.map((each) => charge(order, each, isOpen))}
        ${sumRow(html`<strong>Total</strong>`, html`<strong>${money(order.total)}</strong>`)}
        ${paidRows(order)}
      </tbody></table>
      ${facts(
        [t`Total as placed`, order.original_total.amount === order.total.amount ? null : money(order.original_total)],
        [t`Payment`, paymentText(order)],
        [t`Payment changed`, order.payment === null ? null : time(order.payment.changed_at)],
        ...order.refundable.map(({ provider, reference, left }) => [t`Left of ${provider} ${reference}`, money(left)] as const),
      )}
      ${mayAdjust ? controls(order, isOpen) : nothing}`,
    )
  }
}

function sumRow(label: Content, amount: Content): Content {
  return html`<tr><th scope="row">${label}</th><td class="number">${amount}</td></tr>`
}

function amountOf({ total: { currency } }: Order, amount: number): string {
  return money({ amount, currency })
}

function paymentText({ payment }: Order): string {
  return payment === null ? t`not known` : `${word(payment.state)} (${payment.provider} ${payment.reference})`
}

/** The rows for paid amounts and the rest. They are left out for a shop that reports no payments. */
function paidRows(order: Order): Content {
  const { paid, paidBack, due } = sumsOf(order)
  if (order.payment === null) return nothing
  if (paid === null || paidBack === null || due === null) return sumRow(t`Paid back`, t`not known`)
  const dueLabel = due < 0 ? t`Still to pay back` : t`Still to pay`
  return html`
    ${sumRow(t`Paid`, amountOf(order, paid))}
    ${paidBack === 0 ? nothing : sumRow(t`Paid back`, amountOf(order, -paidBack))}
    ${due === 0 ? nothing : sumRow(html`<strong>${dueLabel}</strong>`, html`<strong class="due">${amountOf(order, Math.abs(due))}</strong>`)}`
}

type OnDone = (order: Order) => void

function openChargeDialog({ id, number, total: { currency } }: Order, signal: AbortSignal, onDone: OnDone): void {
  // All attempts have the same reference, so the charge is made once.
  const reference = newReference()
  const onSubmit = async (data: FormData) => {
    const kind = String(data.get('kind')) as Kind
    const given = readMoney(String(data.get('amount')), currency)
    const amount = { ...given, amount: kind === 'discount' ? -given.amount : given.amount }
    const body = { kind, label: String(data.get('label')), amount, reference }
    onDone(await read(api.POST('/admin/orders/{id}/adjustments', { params: { path: { id } }, body })))
  }
  openFormDialog(
    { title: t`Charge of order ${number}`, submit: t`Add charge`, signal, onSubmit },
    () => () =>
      html`
      ${field(
        t`Kind`,
        choice(
          { name: 'kind' },
          KINDS.map((kind) => [kind, word(kind)] as const),
          'shipping',
        ),
      )}
      ${field(t`Label`, html`<input name="label" maxlength="100" required autocomplete="off">`, t`The customer reads it.`)}
      ${amountField({ name: 'amount', label: t`Amount`, hint: t`In ${currency}. Enter a discount without a minus sign.` })}`,
  )
}

/** Asks for a payment state, beginning with the known one. Sending the same state again changes nothing. */
function openPaymentDialog({ id, number, payment }: Order, signal: AbortSignal, onDone: OnDone): void {
  const { provider = '', reference = '', state = 'paid' } = payment ?? {}
  const onSubmit = async (data: FormData) => {
    const body = {
      provider: String(data.get('provider')),
      reference: String(data.get('payment_reference')).trim(),
      state: String(data.get('state')) as (typeof STATES)[number],
    }
    onDone(await read(api.PUT('/admin/orders/{id}/payment', { params: { path: { id } }, body })))
  }
  const states = STATES.map((each) => [each, word(each)] as const)
  openFormDialog(
    { title: t`Payment of order ${number}`, submit: t`Record payment`, signal, onSubmit },
    () => () =>
      html`
      ${field(
        t`Provider`,
        html`<input name="provider" maxlength="50" required autocomplete="off" pattern="[a-z0-9][a-z0-9_.\\-]{0,49}"
          title="Small letters, digits, _ . and -" .defaultValue=${provider}>`,
        t`For example stripe, or bank for a transfer.`,
      )}
      ${field(
        t`Reference of the payment`,
        html`<input name="payment_reference" maxlength="200" required autocomplete="off" .defaultValue=${reference}>`,
        t`The payment's id at the provider. The customer can see it.`,
      )}
      ${field(
        t`State`,
        choice({ name: 'state' }, states, state),
        t`The state only moves forward: a state that the payment has passed changes nothing.`,
      )}`,
  )
}

/** Asks for the refunded amount, and shows the rest. The store checks the amount, and records each reference once. */
function openRefundDialog(order: Order, signal: AbortSignal, onDone: OnDone): void {
  const { currency } = order.total
  const { due } = sumsOf(order)
  const first = order.refundable[0]?.left.amount ?? 0
  const owed = due !== null && due < 0 ? Math.min(-due, first) : null
  let preview = ''
  const showLeft = (data: FormData) => {
    const left = order.refundable[Number(data.get('refund_payment') ?? 0)]?.left.amount ?? 0
    preview = leftText(left, String(data.get('refund_amount') ?? ''), currency)
  }
  const onSubmit = async (data: FormData) => {
    const { reference = '', reason } = readDetails(data)
    const body = {
      ...{ amount: readMoney(String(data.get('refund_amount')), currency), payment: readPayment(order, data), reference },
      ...(reason === undefined ? {} : { reason }),
    }
    onDone(await read(api.POST('/admin/orders/{id}/refunds', { params: atVersion(order), body })))
  }
  preview = leftText(first, owed === null ? '' : amountText({ amount: owed, currency }), currency)
  openFormDialog({ title: t`Refund of order ${order.number}`, submit: t`Record refund`, signal, onSubmit }, ({ update }) => {
    const cause = causeFields()
    const change = ({ currentTarget }: Event) => {
      const form = (currentTarget as Element).closest('form')
      if (form !== null) showLeft(new FormData(form))
      update()
    }
    return () => html`
        ${note(t`The store moves no money: pay it back first, then record it here. It cannot be undone. Later mails of the order show it.`)}
        <div class="fields" @input=${change} @change=${change}>
          ${paymentChoice(order)}
          ${amountField({
            ...{ name: 'refund_amount', label: t`Amount`, hint: t`In ${currency}.` },
            money: owed === null ? null : { amount: owed, currency },
          })}
        </div>
        <p aria-live="polite">${preview}</p>
        ${cause}`
  })
}

function leftText(left: number, entered: string, currency: string): string {
  const text = t`${money({ amount: left, currency })} can be refunded`
  const amount = parseAmount(entered, currency)
  if (amount === null) return `${text}.`
  const rest = left - amount
  const difference = money({ amount: Math.abs(rest), currency })
  return rest < 0 ? t`${text}: this is ${difference} too much.` : t`${text}, ${difference} after this refund.`
}

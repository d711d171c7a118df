import { minorDigits, parseMajorUnits } from '#currency'
import { ruleOf } from '#order-status'
import { call, pathOf, type Schemas } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { amountText, button, card, create, facts, keepFocus, note, replaceChildren, table, timeElement } from './dom.ts'
import { choice, explainError, field, sendForm, textInput } from './form.ts'
import { causeFields, readMoveDetails } from './move-fields.ts'
import { newReference } from './order-parts.ts'
import type { ScreenContext } from './screen.ts'

type Order = Schemas['AdminOrder']
type Kind = Schemas['NewAdjustment']['kind']

const KINDS = ['shipping', 'discount', 'tax', 'fee'] as const satisfies readonly Kind[]

/** What is charged for an order besides its lines and how it is paid; who may change that has the controls for it. */
export function orderCharges(
  orderId: string,
  context: Pick<ScreenContext, 'signal' | 'may' | 'tell' | 'report'> & { onChange: () => void },
) {
  const { signal, tell, report, onChange } = context
  const mayAdjust = context.may('orders:adjust')
  const path = pathOf`/admin/orders/${orderId}/adjustments`
  const content = create('div', {})
  const kind = choice({ name: 'kind' }, KINDS, 'shipping')
  const label = textInput('label', { maxLength: 100, required: true })
  const amount = textInput('amount', { maxLength: 21, required: true, inputMode: 'decimal' })
  let currency = ''
  // The same when the answer was lost: the adjustment is made once.
  let reference = newReference()

  async function add(): Promise<void> {
    const money = readAmount(amount.value, currency)
    const signed = { ...money, amount: kind.value === 'discount' ? -money.amount : money.amount }
    const body = { kind: kind.value as Kind, label: label.value, amount: signed, reference }
    const order = await call<Order>('POST', path, { body })
    tell(`The total is ${amountText(order.total)} now.`)
    label.value = ''
    amount.value = ''
    reference = newReference()
    onChange()
  }

  function voidButton({ version, label: text }: Schemas['Adjustment']): HTMLButtonElement {
    const element = button('Void', async () => {
      element.disabled = true
      try {
        const order = await call<Order>('DELETE', `${path}/${version}`)
        tell(`${text} is void. The total is ${amountText(order.total)} now.`)
        onChange()
      } catch (error) {
        element.disabled = false
        if (!signal.aborted) report(new Error(explainError(error as Error)))
      }
    })
    element.ariaLabel = `Void ${text}`
    return element
  }

  const form = create(
    'div',
    { hidden: true },
    sendForm(
      { submit: 'Add adjustment', signal, onSubmit: add },
      field('Kind', kind),
      field('Label', label, 'The customer reads it.'),
      field('Amount', amount, 'In major units, with a point: 4.90. Enter a discount without a minus sign.'),
    ),
  )
  const element = card('Charges and payment', content, mayAdjust && form)

  function show(order: Order): void {
    // An API process of the previous release answers without `refundable` and `refunded`.
    const { adjustments, payment, refundable = [], total, original_total, status } = order
    currency = total.currency
    // An order that has ended is only paid or paid back.
    const isAdjustable = mayAdjust && ruleOf(status).phase !== 'ended'
    form.hidden = !isAdjustable
    const rows = adjustments.map((each) => [each.label, each.kind, amountText(each.amount), ...(isAdjustable ? [voidButton(each)] : [])])
    const columns = ['Label', 'Kind', { number: 'Amount' }, ...(isAdjustable ? ['Action'] : [])]
    const onDone = ({ payment: now }: Order) => {
      if (now !== null) tell(`The payment is ${now.state}.`)
      onChange()
    }
    const onRefund = ({ refunded: now }: Order) => {
      tell(now === null ? 'The refund is recorded.' : `${amountText(now)} of the order is refunded now.`)
      onChange()
    }
    const shown = [
      rows.length === 0 ? note('Nothing is charged besides the lines.') : table('Adjustments', columns, rows),
      facts(
        ['Total as placed', amountText(original_total)],
        ['Total', amountText(total)],
        ['Payment', payment === null ? 'not known' : `${payment.state} (${payment.provider} ${payment.reference})`],
        ['Refunded', refundedText(order)],
        ...refundable.map(({ provider, reference, left }) => [`Left of ${provider} ${reference}`, amountText(left)] as const),
        ['Payment changed', payment === null ? null : timeElement(payment.changed_at)],
      ),
      mayAdjust &&
        create(
          'p',
          { class: 'actions' },
          button('Record payment…', () => openPaymentDialog(order, { signal, onDone })),
          refundable.length > 0 && button('Refund…', () => openRefundDialog(order, { signal, onDone: onRefund })),
        ),
    ]
    keepFocus(content, () => replaceChildren(content, ...shown))
  }
  return { element, show }
}

/** What was paid back as text; null for nothing. */
function refundedText({ refunded }: Order): string | null {
  if (refunded === null) return 'not known'
  return refunded?.amount ? amountText(refunded) : null
}

/** Exact, in minor units. Throws with the way to write it. */
function readAmount(text: string, currency: string): Schemas['Money'] {
  const amount = parseMajorUnits(text.trim(), currency)
  if (amount === null) throw new Error(`The amount must be a number such as 4.90, with at most ${minorDigits(currency)} decimals.`)
  return { amount, currency }
}

const STATES = [
  'pending',
  'authorized',
  'failed',
  'paid',
  'partially_refunded',
  'refunded',
] as const satisfies readonly Schemas['Payment']['state'][]

/** Asks how an order is paid, beginning with what is known. Repeating it changes nothing: a payment is named by provider and reference. */
function openPaymentDialog(
  order: Schemas['AdminOrder'],
  { signal, onDone }: { signal: AbortSignal; onDone: (order: Schemas['AdminOrder']) => void },
): void {
  const { provider = '', reference = '', state = 'paid' } = order.payment ?? {}
  const input = (name: string, maxLength: number, value: string) =>
    create('input', { name, maxLength, value, required: true, autocomplete: 'off' })
  const name = Object.assign(input('provider', 50, provider), {
    pattern: '[a-z0-9][a-z0-9_.\\-]{0,49}',
    title: 'Small letters, digits, _ . and -',
  })
  const id = input('payment_reference', 200, reference)
  const stateChoice = choice({ name: 'state' }, STATES, state)

  async function onSubmit(): Promise<void> {
    const body = { provider: name.value, reference: id.value.trim(), state: stateChoice.value }
    onDone(await call<Schemas['AdminOrder']>('PUT', pathOf`/admin/orders/${order.id}/payment`, { body }))
  }

  openFormDialog(
    { title: `Payment of order ${order.number}`, submit: 'Record payment', signal, onSubmit },
    field('Provider', name, 'For example stripe, or bank for a transfer.'),
    field('Reference of the payment', id, "The payment's id at the provider. The customer can see it."),
    field('State', stateChoice, 'The state only moves forward: a state that the payment has passed changes nothing.'),
  )
}

/** Asks what was paid back, and shows what is left after it. The store decides it again, and records a reference once. */
function openRefundDialog(
  order: Schemas['AdminOrder'],
  { signal, onDone }: { signal: AbortSignal; onDone: (order: Schemas['AdminOrder']) => void },
): void {
  const { refundable } = order
  const { currency } = order.total
  const amount = textInput('refund_amount', { maxLength: 21, required: true, inputMode: 'decimal' })
  const names = refundable.map(({ provider, reference: id }, index) => [String(index), `${provider} ${id}`] as const)
  const payment = choice({ name: 'refund_payment' }, names, '0')
  const preview = create('p', { attributes: { 'aria-live': 'polite' } })
  const chosen = () => refundable[Number(payment.value)]

  function showLeft(): void {
    const left = chosen()?.left.amount ?? 0
    const leftText = `${amountText({ amount: left, currency })} can be refunded`
    const entered = parseMajorUnits(amount.value.trim(), currency)
    const rest = left - (entered ?? 0)
    const money = amountText({ amount: Math.abs(rest), currency })
    if (entered === null) preview.textContent = `${leftText}.`
    else preview.textContent = rest < 0 ? `${leftText}: this is ${money} too much.` : `${leftText}, ${money} after this refund.`
  }

  async function onSubmit(data: FormData): Promise<void> {
    const { provider = '', reference = '' } = chosen() ?? {}
    const body = { amount: readAmount(amount.value, currency), payment: { provider, reference }, ...readMoveDetails(data) }
    onDone(await call<Schemas['AdminOrder']>('POST', pathOf`/admin/orders/${order.id}/refunds`, { body, ifMatch: `"${order.version}"` }))
  }

  amount.addEventListener('input', showLeft)
  payment.addEventListener('change', showLeft)
  showLeft()
  openFormDialog(
    { title: `Refund of order ${order.number}`, submit: 'Record refund', signal, onSubmit },
    note(
      'The store moves no money: pay back first, then record it here. It cannot be undone. Later mails of the order show the customer what was refunded.',
    ),
    names.length > 1 && field('Payment', payment),
    field('Amount', amount, `In major units of ${currency}, with a point.`),
    preview,
    ...causeFields('refund'),
  )
}

import { minorDigits, parseMajorUnits } from '#currency'
import { ruleOf } from '#order-status'
import { call, pathOf, type Schemas } from './api.ts'
import { amountText, button, create, facts, note, replaceChildren, table, timeElement } from './dom.ts'
import { choice, explainError, field, sendForm } from './form.ts'
import { keepFocus } from './keyed-table.ts'
import { newReference } from './order-parts.ts'
import { openPaymentDialog } from './payment-dialog.ts'
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
  const label = create('input', { name: 'label', maxLength: 100, required: true, autocomplete: 'off' })
  const amount = create('input', { name: 'amount', maxLength: 21, required: true, inputMode: 'decimal', autocomplete: 'off' })
  let currency = ''
  // The same when the answer was lost: the adjustment is made once.
  let reference = newReference()

  async function add(): Promise<void> {
    const body = { kind: kind.value as Kind, label: label.value, amount: readAmount(kind.value, amount.value, currency), reference }
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
      field('Amount', amount, 'In major units, with a point: 4.90. A discount without its sign.'),
    ),
  )
  const element = create('section', { class: 'card' }, create('h3', {}, 'Charges and payment'), content, mayAdjust && form)

  function show(order: Order): void {
    const { adjustments, payment, total, original_total, status } = order
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
    const shown = [
      rows.length === 0 ? note('Nothing is charged besides the lines.') : table('Adjustments', columns, rows),
      facts(
        ['Total as placed', amountText(original_total)],
        ['Total', amountText(total)],
        ['Payment', payment === null ? 'not known' : `${payment.state} (${payment.provider} ${payment.reference})`],
        ['Payment changed', payment === null ? null : timeElement(payment.changed_at)],
      ),
      mayAdjust &&
        create(
          'p',
          { class: 'actions' },
          button('Record payment…', () => openPaymentDialog(order, { signal, onDone })),
        ),
    ]
    keepFocus(content, () => replaceChildren(content, ...shown))
  }
  return { element, show }
}

/** Exact, in minor units. Throws with the way to write it. */
function readAmount(kind: string, text: string, currency: string): Schemas['NewAdjustment']['amount'] {
  const amount = parseMajorUnits(text.trim(), currency)
  if (amount === null) throw new Error(`The amount must be a number such as 4.90, with at most ${minorDigits(currency)} decimals.`)
  return { amount: kind === 'discount' ? -amount : amount, currency }
}

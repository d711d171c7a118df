import { call, pathOf, type Schemas } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { create } from './dom.ts'
import { choice, field } from './form.ts'

const STATES = [
  'pending',
  'authorized',
  'failed',
  'paid',
  'partially_refunded',
  'refunded',
] as const satisfies readonly Schemas['Payment']['state'][]

/** Asks how an order is paid, beginning with what is known. Repeating it changes nothing: a payment is named by provider and reference. */
export function openPaymentDialog(
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
    field('Provider', name, 'Such as stripe, or bank for a transfer.'),
    field('Reference of the payment', id, 'Its id there. The customer can see it.'),
    field('State', stateChoice, 'It only moves forward: one that the payment has passed changes nothing.'),
  )
}

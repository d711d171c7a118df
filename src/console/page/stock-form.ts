import { isRefusal, pathOf, poll, type Schemas, send } from './api.ts'
import { badge, card, create, replaceChildren } from './dom.ts'
import { field, sendForm, textInput } from './form.ts'
import { newReference } from './order-parts.ts'
import type { ScreenContext } from './screen.ts'

type Stock = Schemas['Stock']

const POLL_SECONDS = 3

/** The stock of a product, which keeps itself up to date, and the two ways to change it. `onChanged`: its version is another one. */
export function stockForms(
  productId: string,
  { signal, may, report, tell, onChanged }: Pick<ScreenContext, 'signal' | 'may' | 'report' | 'tell'> & { onChanged: () => void },
): HTMLElement {
  const path = pathOf`/admin/products/${productId}/stock`
  const level = create('p', { class: 'level', attributes: { role: 'status' } })
  let current: Stock | null = null
  const show = (stock: Stock) => {
    const isOther = current?.version !== stock.version
    current = stock
    if (!isOther) return
    replaceChildren(level, ...levelParts(stock))
    onChanged()
  }
  poll<Stock>(path, { seconds: POLL_SECONDS, signal, onChange: show, onError: report })
  const shared = { path, signal, tell, current: () => current, show }
  const forms = may('stock:write') ? [countForm(shared), adjustmentForm(shared)] : []
  return card('Stock', level, ...forms)
}

interface Shared extends Pick<ScreenContext, 'signal' | 'tell'> {
  path: string
  current: () => Stock | null
  show: (stock: Stock) => void
}

function levelParts({ available, version }: Stock) {
  const text = available === null ? 'Not tracked' : `${available.toLocaleString()} available`
  return [create('strong', {}, text), ' ', available === 0 ? badge('sold out', 'bad') : null, ` version ${version}`]
}

/**
 * Sets the number. It counts against the stock that was shown when the operator began to enter it: a sale since then is a refusal, and the
 * number stays to be checked.
 */
function countForm({ path, signal, tell, current, show }: Shared): HTMLElement {
  const count = textInput('stock', { type: 'number', min: '0', step: '1' })
  const reason = textInput('reason', { maxLength: 500 })
  const isUntracked = create('input', { type: 'checkbox', name: 'untracked' })
  let counted: Stock | null = null
  const begin = () => {
    counted ??= current()
  }
  const set = async () => {
    begin()
    const before = counted
    if (before === null) throw new Error('The stock is not known yet.')
    if (count.value === '' && !isUntracked.checked) throw new Error('Enter the number that you have counted.')
    const body = {
      stock: isUntracked.checked ? null : Number(count.value),
      ...(reason.value.trim() === '' ? {} : { reason: reason.value.trim() }),
    }
    try {
      const stock = (await (await send('PUT', path, { body, ifMatch: `"${before.version}"` })).json()) as Stock
      tell(stock.available === null ? 'The stock is not tracked any more.' : `The stock is ${stock.available}.`)
      show(stock)
      form.reset()
      counted = null
    } catch (error) {
      if (!isRefusal(error, 'precondition_failed')) throw error
      const now = (await (await send('GET', path)).json()) as Stock
      show(now)
      counted = now
      throw new Error(
        `Nothing was set: the stock was ${numberText(before)} when you began and is ${numberText(now)} now. Check your number and set it again.`,
      )
    }
  }
  const form = sendForm(
    { submit: 'Set stock', signal, onSubmit: set },
    field('Set to', count, 'If the stock has changed since you began to type, nothing is set.'),
    create('label', { class: 'choice' }, isUntracked, ' Not tracked: it never sells out'),
    field('Reason of the count', reason),
  )
  form.addEventListener('input', begin)
  return form
}

function numberText({ available }: Stock): string {
  return available === null ? 'not tracked' : String(available)
}

/** Adds or removes units. The reference makes it once, however often it is sent. */
function adjustmentForm({ path, signal, tell, show }: Shared): HTMLElement {
  const delta = textInput('delta', { type: 'number', step: '1', required: true })
  const reference = textInput('reference', { maxLength: 100, required: true, value: newReference() })
  const reason = textInput('adjustment_reason', { maxLength: 500 })
  const adjust = async () => {
    const text = reason.value.trim()
    const body = { delta: Number(delta.value), reference: reference.value.trim(), ...(text === '' ? {} : { reason: text }) }
    const answer = await send('POST', `${path}/adjustments`, { body })
    const { after } = (await answer.json()) as Schemas['StockAdjustment']
    tell(
      answer.status === 200
        ? `This was booked before under the reference ${body.reference}. Nothing was changed.`
        : `${body.delta > 0 ? 'Added' : 'Removed'} ${Math.abs(body.delta)}: the stock is ${after}.`,
    )
    show((await (await send('GET', path)).json()) as Stock)
    form.reset()
    reference.value = newReference()
  }
  const form = sendForm(
    { submit: 'Adjust stock', signal, onSubmit: adjust },
    field('Adjust by', delta, 'Units added, or removed with a minus.'),
    field('Reference', reference, 'For example the number of the delivery note. Each reference is booked once.'),
    field('Reason of the adjustment', reason),
  )
  return form
}

import { amountText, readAmount } from '../kit/amount.ts'
import type { Schemas } from '../kit/api.ts'
import { field } from '../kit/form.ts'
import { type Content, html } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { newReference } from './order-parts.ts'

/** Details of a change of an order or of its parts. */
export interface ChangeDetails {
  reason?: string
  reference?: string
  tracking?: Schemas['Tracking']
}

const text = (name: string, maxLength: number, value = '') =>
  html`<input name=${name} maxlength=${maxLength} autocomplete="off" .defaultValue=${value}>`

export function trackingFields(): Content {
  return html`
    ${field(t`Carrier`, text('carrier', 100))}
    ${field(t`Parcel number`, text('parcel', 100))}
    ${field(
      t`Address that shows the parcel`,
      html`<input type="url" name="url" maxlength="2000" autocomplete="off" placeholder="https://">`,
    )}`
}

export function restockField(): Content {
  return html`<label class="choice"><input type="checkbox" name="restock"> The goods can be sold again</label>`
}

/**
 * The fields for reason and reference. The store makes a change with the same reference once, so call this only once
 * per dialog.
 */
export function causeFields(): Content {
  const reference = text('reference', 200, newReference())
  return html`
    ${field(t`Reason`, text('reason', 500), t`The customer sees this text, and the data lake keeps it. Do not name a person.`)}
    ${field(t`Reference`, reference, t`What is repeated with the same reference is done only once. The customer can see the reference.`)}`
}

/** The entered details. Throws an error that says how to enter them. */
export function readDetails(data: FormData): ChangeDetails {
  const given = (name: string) => String(data.get(name) ?? '').trim()
  const [reason, reference, carrier, number, url] = ['reason', 'reference', 'carrier', 'parcel', 'url'].map(given)
  if ((carrier === '') !== (number === '')) throw new Error(t`Tracking needs both the carrier and the number of the parcel.`)
  if (url && !carrier) throw new Error(t`An address that shows the parcel needs its carrier and number.`)
  return {
    ...(reason ? { reason } : {}),
    ...(reference ? { reference } : {}),
    ...(carrier && number ? { tracking: { carrier, number, ...(url ? { url } : {}) } } : {}),
  }
}

/** The entered amount. Throws an error that says how to write it. */
export function readMoney(entered: string, currency: string): Schemas['Money'] {
  return { amount: readAmount(entered, currency, t`amount`), currency }
}

interface AmountField {
  name: string
  label: string
  hint: Content
  money?: Schemas['Money'] | null
  isRequired?: boolean
}

export function amountField({ name, label, hint, money = null, isRequired = true }: AmountField): Content {
  const value = money === null ? '' : amountText(money)
  const input = html`<input name=${name} maxlength="21" inputmode="decimal" autocomplete="off" ?required=${isRequired} .defaultValue=${value}>`
  return field(label, input, hint)
}

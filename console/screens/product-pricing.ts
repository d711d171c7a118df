import { MAX_PRICES, MAX_SALE_PRICES } from '../../src/catalogue/product-rules.ts'
import { amountText, readAmount } from '../kit/amount.ts'
import type { Schemas } from '../kit/api.ts'
import { field } from '../kit/form.ts'
import { type Content, html, money, note, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { cell, createRows } from '../kit/rows.ts'
import { toInstant, toLocalTime } from '../kit/times.ts'

type Product = Schemas['EditedProduct']
interface PriceRow {
  currency: string
  amount: string
  before: string
}
interface SaleRow {
  currency: string
  amount: string
  /** The bounds as instants. Empty means no bound. */
  from: string
  until: string
}

const CURRENCIES = 'currencies'

/** A product's price, its prices in other currencies, and its sales. */
export function productPricing(stored: () => Product, onChange: () => void) {
  const prices = createRows<PriceRow>('prices', () => stored().prices.map(priceRow), onChange)
  const sales = createRows<SaleRow>('sale_prices', () => stored().sale_prices.map(saleRow), onChange)

  const price = (row: PriceRow, index: number) => html`<div class="row">
    ${cell({ label: t`Price in ${row.currency || t`it`}`, value: row.amount, numeric: true, required: true }, (amount) => prices.edit(index, { amount }))}
    ${cell({ label: t`Currency ${index + 2}`, value: row.currency, maxLength: 3, list: CURRENCIES, required: true }, (text) => prices.edit(index, { currency: text.toUpperCase() }))}
    ${cell({ label: t`Reduced from, in ${row.currency || t`it`}`, value: row.before, numeric: true }, (before) => prices.edit(index, { before }))}
    <button type="button" aria-label=${t`Remove the price in ${row.currency}`} @click=${() => prices.remove(index)}>×</button>
  </div>`
  const currencies = () => [...new Set([stored().price.currency, ...prices.rows().map(({ currency }) => currency)])].filter(Boolean)
  const time = (label: string, instant: string, onInput: (instant: string) => void) =>
    cell({ label, value: toLocalTime(instant), type: 'datetime-local' }, (local) => onInput(local === '' ? '' : toInstant(local)))
  const sale = (row: SaleRow, index: number) => {
    const choose = ({ currentTarget }: Event) => sales.edit(index, { currency: (currentTarget as HTMLSelectElement).value })
    return html`<fieldset class="sale"><legend>Sale ${index + 1}</legend><div class="row">
      ${cell({ label: t`Price in sale ${index + 1}`, value: row.amount, numeric: true, required: true }, (amount) => sales.edit(index, { amount }))}
      <select aria-label=${t`Currency of sale ${index + 1}`} @change=${choose}>
        ${[...new Set([...currencies(), row.currency])].map((currency) => html`<option ?selected=${currency === row.currency}>${currency}</option>`)}</select>
      <button type="button" aria-label=${t`Remove sale ${index + 1}`} @click=${() => sales.remove(index)}>×</button></div>
      <div class="row"><label>from ${time(t`Sale ${index + 1} from`, row.from, (from) => sales.edit(index, { from }))}</label>
      <label>until ${time(t`Sale ${index + 1} until`, row.until, (until) => sales.edit(index, { until }))}</label></div>
    </fieldset>`
  }
  const addSale = () => {
    const begin = new Date()
    begin.setMinutes(0, 0, 0)
    sales.add({ currency: stored().price.currency, amount: '', from: begin.toISOString(), until: '' })
  }
  const view = (isNew: boolean): Content => {
    const { price: own, compare_at_price: before, lowest_price_30_days: lowest } = stored()
    return html`
      <datalist id=${CURRENCIES}>${['EUR', 'USD', 'GBP', 'CHF', 'SEK', 'DKK', 'NOK', 'PLN', 'CZK', 'JPY', 'CAD', 'AUD'].map((code) => html`<option value=${code}></option>`)}</datalist>
      <div class="row">
        ${field(t`Price`, html`<input name="price" inputmode="decimal" autocomplete="off" maxlength="30" required .defaultValue=${isNew ? '' : amountText(own)}>`)}
        ${field(t`Currency`, html`<input name="currency" autocomplete="off" list=${CURRENCIES} maxlength="3" pattern="[A-Z]{3}" title="Three capital letters, such as EUR" required .defaultValue=${own.currency}>`)}
        ${field(t`Reduced from`, html`<input name="compare_at_price" inputmode="decimal" autocomplete="off" maxlength="30" .defaultValue=${before === null ? '' : amountText(before)}>`)}
      </div>
      ${lowest === null ? nothing : note(t`Lowest price of the 30 days before the reduction, which the law wants to be shown: ${money(lowest)}`)}
      ${prices.mark(html`${prices.rows().map(price)}
        ${prices.rows().length >= MAX_PRICES ? nothing : html`<div><button type="button" @click=${() => prices.add({ currency: '', amount: '', before: '' })}>Add a currency</button></div>`}`)}
      ${sales.mark(html`${sales.rows().map(sale)}
        ${sales.rows().length >= MAX_SALE_PRICES ? nothing : html`<div><button type="button" @click=${addSale}>Add a sale</button></div>`}`)}`
  }
  return {
    view,
    read(data: FormData, changed: ReadonlySet<string>, isNew: boolean): Schemas['ProductChange'] {
      const text = (name: string) => String(data.get(name) ?? '').trim()
      const isOwn = isNew || ['price', 'currency', 'compare_at_price'].some((name) => changed.has(name))
      return {
        ...(isOwn ? readOwn(text) : {}),
        ...(prices.isChanged() ? { prices: prices.rows().map(readPrice) } : {}),
        ...(sales.isChanged() ? { sale_prices: sales.rows().map(readSale) } : {}),
      }
    },
    discard() {
      prices.discard()
      sales.discard()
    },
  }
}

function readOwn(text: (name: string) => string): Schemas['ProductChange'] {
  const currency = text('currency')
  const before = text('compare_at_price')
  return {
    price: { amount: readAmount(text('price'), currency, t`price`), currency },
    compare_at_price: before === '' ? null : { amount: readAmount(before, currency, t`price before the reduction`), currency },
  }
}

function priceRow({ currency, amount, compare_at: before }: Product['prices'][number]): PriceRow {
  return { currency, amount: amountText({ amount, currency }), before: before === null ? '' : amountText({ amount: before, currency }) }
}

function readPrice({ currency, amount, before }: PriceRow): Product['prices'][number] {
  const compare_at = before.trim() === '' ? null : readAmount(before, currency, t`price in ${currency} before the reduction`)
  return { currency, amount: readAmount(amount, currency, t`price in ${currency}`), compare_at }
}

function saleRow({ currency, amount, from, until }: Product['sale_prices'][number]): SaleRow {
  return { currency, amount: amountText({ amount, currency }), from: from ?? '', until: until ?? '' }
}

function readSale({ currency, amount, from, until }: SaleRow): Product['sale_prices'][number] {
  return { currency, amount: readAmount(amount, currency, t`price of a sale`), from: from || null, until: until || null }
}

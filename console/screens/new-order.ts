import { LANGUAGES } from '../../src/language.ts'
import { api, explain, isProblem, read, restartable, type Schemas } from '../kit/api.ts'
import { openFormDialog } from '../kit/dialog.ts'
import { choice, field } from '../kit/form.ts'
import { type Content, html, money, note, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { createRows } from '../kit/rows.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { suggestions } from '../kit/suggestions.ts'
import { addressFields, fieldset, readAddress } from './order-amend.ts'
import { customerState, languageName, orderAddress } from './parts.ts'

type Customer = Pick<Schemas['Customer'], 'id' | 'name' | 'email' | 'role' | 'blocked_at'>
type Product = Schemas['Product']
type Quote = Schemas['Quote']

interface Line {
  product: Pick<Product, 'id' | 'sku' | 'name' | 'price'>
  quantity: number
}

/** Largest number of matches of a search. Accounts and guests have separate searches. */
const FOUND = 5

const customerText = ({ name, email }: Customer) => (name === null ? email : `${name} (${email})`)
const customerContent = (customer: Customer) => html`${customerText(customer)} ${customerState(customer)}`
const productText = ({ name, sku, price }: Line['product']) => `${name} (${sku}), ${money(price)}`

/** A dialog that places an order for a person on the phone. `known` is the customer whose screen opened it. */
export function openNewOrder({ signal, may, tell }: ScreenContext, known: Customer | null = null): void {
  // A dialog places one order, however often it is sent.
  const key = crypto.randomUUID()
  let customer = known
  let quote: Quote | null = null
  let fault = ''
  /** The content that the store has refused as a repeat. The operator may place exactly this content again. */
  let sameOrder: string | null = null
  let rows: () => readonly Line[] = () => []
  let price = () => {}

  openFormDialog({ title: t`New order`, submit: t`Place order`, signal, onSubmit, wide: true }, ({ update }) => {
    const show = () => update()
    const lines = createRows<Line>('lines', () => [], onLines)
    const pricing = restartable(signal, async (until) => {
      fault = ''
      try {
        const answer = await read(api.POST('/admin/orders/quote', { body: { items: itemsOf(lines.rows()) }, signal: until }))
        if (!until.aborted) quote = answer
      } catch (error) {
        if (!until.aborted) fault = explain(error)
      }
      if (!until.aborted) show()
    })
    rows = lines.rows
    price = pricing
    function onLines(): void {
      quote = null
      fault = ''
      sameOrder = null
      if (lines.rows().length > 0) pricing()
      else pricing.stop()
      show()
    }
    const add = (product: Product) => {
      const index = lines.rows().findIndex((line) => line.product.id === product.id)
      const quantity = lines.rows()[index]?.quantity
      if (quantity === undefined) lines.add({ product, quantity: 1 })
      else lines.edit(index, { quantity: quantity + 1 })
    }
    // The account with an address comes before the guests with it, of which there may be many.
    const findCustomers = async (q: string, until: AbortSignal) => {
      const ask = (role: Customer['role']) =>
        read(api.GET('/admin/customers', { params: { query: { q, role, limit: FOUND } }, signal: until }))
      return (await Promise.all([ask('customer'), ask('guest')])).flatMap(({ data }) => data)
    }
    const findProducts = async (q: string, until: AbortSignal) =>
      (await read(api.GET('/products', { params: { query: { q, limit: FOUND } }, signal: until }))).data
    const common = { update: show, signal }
    const customers = suggestions<Customer>({
      ...{ ...common, label: t`Find customer`, name: 'customer', find: findCustomers, keyOf: ({ id }) => id },
      hint: t`Name, e-mail, phone, postal code or number of an order.`,
      contentOf: customerContent,
      onChoose: (chosen) => {
        customer = chosen
        sameOrder = null
      },
    })
    const products = suggestions<Product>({
      ...{
        ...common,
        label: t`Add product`,
        name: 'product',
        find: findProducts,
        keyOf: ({ id }) => id,
        contentOf: productText,
        isNamed: ({ sku }, text) => sku === text,
        onChoose: add,
      },
      hint: t`Its name or SKU. Enter adds the product with that SKU, or the only one that is found.`,
    })
    const another = () => {
      customer = null
      sameOrder = null
      show()
    }
    const lineView = ({ product, quantity }: Line, index: number) =>
      html`<li>${productText(product)}
        <input type="number" min="1" max="10000" step="1" required autocomplete="off" aria-label="Units of ${product.name}" .value=${String(quantity)}
          @change=${({ currentTarget }: Event) => {
            const { valueAsNumber } = currentTarget as HTMLInputElement
            if (valueAsNumber >= 1) lines.edit(index, { quantity: Math.trunc(valueAsNumber) })
          }}>
        <button type="button" aria-label="Remove ${product.name}" @click=${() => lines.remove(index)}>×</button></li>`
    return () => html`
      ${
        customer === null
          ? html`${may('customers:read') ? customers() : nothing}
            ${field(
              t`or guest’s e-mail address`,
              html`<input type="email" name="email" maxlength="254" required autocomplete="off">`,
              t`The order’s mails go there. A customer who has proven this address gets the order, too.`,
            )}
            ${field(t`Language of the mails`, choice({ name: 'language' }, [['', t`as before, or the store’s`], ...LANGUAGES.map((tag) => [tag, languageName(tag)] as const)], ''), t`A customer who has proven this address gets mails in the language of the account.`)}`
          : html`<p>For ${customerContent(customer)}
            ${known === null ? html`<button type="button" @click=${another}>Another customer</button>` : nothing}</p>`
      }
      ${fieldset(t`Lines`, [
        lines.mark(lines.rows().length === 0 ? nothing : html`<ul class="chosen">${lines.rows().map(lineView)}</ul>`),
        products(),
        html`<div role="status">${sumView(quote, fault)}</div>`,
      ])}
      ${fieldset(t`Delivery address`, addressFields(undefined))}
      ${field(t`Note`, html`<textarea name="note" maxlength="1000" rows="2"></textarea>`, t`The customer sees it.`)}
      ${
        sameOrder !== null
          ? html`<label class="choice"><input type="checkbox" name="again"> Place the same order a second time</label>`
          : nothing
      }`
  })

  async function onSubmit(data: FormData): Promise<void> {
    const text = (name: string) => String(data.get(name) ?? '').trim()
    const chosen = rows()
    if (chosen.length === 0) throw new Error(t`Add at least one product.`)
    if (quote === null) {
      price()
      throw new Error(t`The sum of the order was not known, and is asked for again. Look at it, and send the order then.`)
    }
    const address = readAddress(undefined, '', text)
    const language = LANGUAGES.find((tag) => tag === text('language'))
    const body: Schemas['NewCustomerOrder'] = {
      ...(customer === null ? { email: text('email'), ...(language === undefined ? {} : { language }) } : { customer_id: customer.id }),
      items: itemsOf(chosen),
      expected_total: quote.total,
      ...(address ? { shipping_address: address } : {}),
      ...(text('note') === '' ? {} : { note: text('note') }),
    }
    // The person and the values by which the store recognizes a repeat.
    const content = JSON.stringify([customer?.id ?? body.email, body.items, address])
    if (data.has('again') && content === sameOrder) body.again = true
    try {
      const order = await read(api.POST('/admin/orders', { params: { header: { 'idempotency-key': key } }, body }))
      location.hash = orderAddress(order.id)
      tell(t`Order ${order.number} is placed.`)
    } catch (error) {
      if (isProblem(error, 'probably_placed_already')) sameOrder = content
      if (isProblem(error, 'idempotency_key_reused'))
        throw new Error(t`The order was placed already, as it was entered when it was first sent. It is in the list of orders.`)
      // The shown price or stock is outdated.
      if (isProblem(error, 'price_changed') || isProblem(error, 'insufficient_stock')) price()
      throw error
    }
  }
}

function sumView(quote: Quote | null, fault: string): Content {
  if (fault !== '') return note(fault)
  if (quote === null) return nothing
  const { items, shortages, total } = quote
  const nameOf = (id: string) => items.find(({ product_id }) => product_id === id)?.name
  const short = shortages.map(({ product_id, available }) => note(t`${nameOf(product_id)}: ${available} in stock.`))
  return html`<p>Total <strong>${money(total)}</strong></p>${short}`
}

function itemsOf(lines: readonly Line[]) {
  return lines.map(({ product, quantity }) => ({ product_id: product.id, quantity }))
}

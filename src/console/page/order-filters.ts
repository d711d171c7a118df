import { ORDER_STATUSES } from '#order-status'
import { call, pathOf, type Schemas, withQuery } from './api.ts'
import { button, create } from './dom.ts'
import { choice, labelled, searchForm, textInput } from './form.ts'
import { toInstant, toLocalTime } from './times.ts'

const NAMES = ['q', 'number', 'email', 'status', 'product_id', 'user_id', 'from', 'to'] as const
const UUID_PATTERN = '[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}'
const UUID = new RegExp(`^${UUID_PATTERN}$`)

/** The filters in an address, without its other parameters. */
export function readFilters(parameters: URLSearchParams): URLSearchParams {
  return new URLSearchParams(NAMES.flatMap((name) => (parameters.get(name) ? [[name, parameters.get(name) ?? '']] : [])))
}

/** The form of the filters; `onChange` gets them when it is sent. */
export function filterForm(
  filters: URLSearchParams,
  { onChange, report }: { onChange: (filters: URLSearchParams) => void; report: (error: unknown) => void },
): HTMLElement {
  const given = (name: string) => filters.get(name) ?? ''
  const status = choice({ name: 'status' }, [['', 'all'], ...ORDER_STATUSES], given('status'))
  const text = (name: string, value: string, size: number) => textInput(name, { value, size })
  const time = (name: string) => create('input', { name, type: 'datetime-local', value: toLocalTime(given(name)) })
  const product = text('product', given('product_id'), 14)
  void showSku(product, given('product_id'))
  const customer = Object.assign(text('user_id', given('user_id'), 14), {
    pattern: `\\s*${UUID_PATTERN}\\s*`,
    title: 'The id of a customer',
  })
  const form = searchForm(
    'Orders',
    (entered) => readEntered(entered).then(onChange).catch(report),
    labelled('Search', searchInput(given('q'), 'Number, name, phone, e-mail, postal code, tracking, reference, product')),
    labelled('Number', orderNumberInput(given('number'))),
    labelled('E-mail', Object.assign(text('email', given('email'), 20), { type: 'email' })),
    labelled('Status', status),
    labelled('Product (SKU or id)', product),
    labelled('Customer (id)', customer),
    labelled('Placed from', time('from')),
    labelled('Placed before', time('to')),
    create('button', { type: 'submit', class: 'primary' }, 'Search'),
    button('Reset', () => {
      for (const control of form.querySelectorAll<HTMLInputElement | HTMLSelectElement>('input, select')) control.value = ''
      onChange(new URLSearchParams())
    }),
  )
  return form
}

async function readEntered({ number = '', product = '', from = '', to = '', ...others }: Record<string, string>): Promise<URLSearchParams> {
  const given = {
    ...others,
    number: number.replace('#', ''),
    product_id: product === '' || UUID.test(product) ? product : await findProductId(product),
    from: toInstant(from),
    to: toInstant(to),
  }
  return new URLSearchParams(Object.entries(given).filter(([, value]) => value !== ''))
}

/** A control for what the API searches in all that a list has. */
export function searchInput(value: string, placeholder: string): HTMLInputElement {
  return textInput('q', { type: 'search', value, placeholder, size: 30, minLength: 2, maxLength: 100 })
}

/** A control for the number of an order. */
export function orderNumberInput(value: string): HTMLInputElement {
  return textInput('number', {
    value,
    size: 8,
    inputMode: 'numeric',
    pattern: '\\s*#?[0-9]{1,18}\\s*',
    title: 'Digits, with or without #',
  })
}

/** The API finds orders by the product's id, and people know its SKU. */
async function findProductId(sku: string): Promise<string> {
  const { data } = await call<Schemas['ProductPage']>('GET', withQuery('/products', { q: sku, limit: 20 }))
  const found = data.find((product) => product.sku.toLowerCase() === sku.toLowerCase())
  if (found === undefined) throw new Error(`No product has the SKU ${sku}. An archived one is found by its id.`)
  return found.id
}

/** Replaces the id by the SKU. It stays for an archived product, which only its id finds, and where the operator has typed meanwhile. */
async function showSku(control: HTMLInputElement, productId: string): Promise<void> {
  if (productId === '') return
  try {
    const { sku } = await call<Schemas['ProductDetails']>('GET', pathOf`/products/${productId}`)
    if (control.value === productId) control.value = sku
  } catch {
    // The list itself reports a store that does not answer.
  }
}

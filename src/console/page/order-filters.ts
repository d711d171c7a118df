import { ORDER_STATUSES } from '#order-status'
import { call, pathOf, type Schemas, withQuery } from './api.ts'
import { create } from './dom.ts'
import { choice } from './form.ts'

const NAMES = ['number', 'email', 'status', 'product_id', 'user_id', 'from', 'to'] as const
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
  const text = (name: string, value: string, size: number) => create('input', { name, value, size, autocomplete: 'off' })
  const time = (name: string) => create('input', { name, type: 'datetime-local', value: toLocalTime(given(name)) })
  const number = Object.assign(text('number', given('number'), 8), {
    inputMode: 'numeric',
    pattern: '\\s*#?[0-9]{1,18}\\s*',
    title: 'Digits, with or without #',
  })
  const product = text('product', given('product_id'), 14)
  void showSku(product, given('product_id'))
  const customer = Object.assign(text('user_id', given('user_id'), 14), {
    pattern: `\\s*${UUID_PATTERN}\\s*`,
    title: 'The id of a customer',
  })
  const label = (name: string, control: HTMLElement) => create('label', {}, `${name} `, control)
  const reset = create('button', { type: 'button' }, 'Reset')
  const form = create(
    'form',
    { class: 'filters', attributes: { role: 'search', 'aria-label': 'Orders' } },
    label('Number', number),
    label('E-mail', Object.assign(text('email', given('email'), 20), { type: 'email' })),
    label('Status', status),
    label('Product (SKU or id)', product),
    label('Customer (id)', customer),
    label('Placed from', time('from')),
    label('Placed before', time('to')),
    create('button', { type: 'submit', class: 'primary' }, 'Search'),
    reset,
  )
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    try {
      onChange(await readForm(new FormData(form)))
    } catch (error) {
      report(error)
    }
  })
  reset.addEventListener('click', () => {
    for (const control of form.querySelectorAll<HTMLInputElement | HTMLSelectElement>('input, select')) control.value = ''
    onChange(new URLSearchParams())
  })
  return form
}

async function readForm(data: FormData): Promise<URLSearchParams> {
  const text = (name: string) => String(data.get(name) ?? '').trim()
  const product = text('product')
  const given = {
    number: text('number').replace('#', ''),
    email: text('email'),
    status: text('status'),
    product_id: product === '' || UUID.test(product) ? product : await findProductId(product),
    user_id: text('user_id'),
    from: toInstant(text('from')),
    to: toInstant(text('to')),
  }
  return new URLSearchParams(Object.entries(given).filter(([, value]) => value !== ''))
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

/** The instant of a `datetime-local`; an empty one stays so. */
export function toInstant(local: string): string {
  return local === '' ? '' : new Date(local).toISOString()
}

/** An instant as `datetime-local` has it: the time of this browser's zone, to the minute. */
export function toLocalTime(instant: string): string {
  const time = new Date(instant)
  if (Number.isNaN(time.getTime())) return ''
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

import { formatMajorUnits, minorDigits, parseMajorUnits } from '#currency'
import type { Schemas } from './api.ts'
import { create } from './dom.ts'
import { field } from './form.ts'
import { ATTRIBUTES_HINT, formatAttributes } from './product-attributes.ts'

type Product = Schemas['Product']

/** What an operator edits; as texts, the price in major units. */
export const FIELD_NAMES = ['sku', 'name', 'category', 'price', 'currency', 'description', 'attributes'] as const
type FieldName = (typeof FIELD_NAMES)[number]
export type ProductTexts = Readonly<Record<FieldName, string>>

export function textsOf({ sku, name, category, description, price, attributes }: Product): ProductTexts {
  return {
    sku,
    name,
    category,
    description,
    attributes: formatAttributes(attributes),
    price: formatMajorUnits(price),
    currency: price.currency,
  }
}

export interface ProductFields {
  elements: readonly HTMLElement[]
  read(): ProductTexts
  write(texts: Partial<ProductTexts>): void
}

/** The controls of a product. */
export function productFields(texts: ProductTexts): ProductFields {
  const input = (name: FieldName, maxLength: number) =>
    create('input', { name, maxLength, required: true, autocomplete: 'off', value: texts[name] })
  const controls = {
    sku: input('sku', 64),
    name: input('name', 300),
    category: input('category', 100),
    price: Object.assign(input('price', 21), { inputMode: 'decimal' }),
    currency: Object.assign(input('currency', 3), { pattern: '[A-Z]{3}', title: 'Three capital letters, such as EUR' }),
    description: create('textarea', { name: 'description', maxLength: 10_000, rows: 5, value: texts.description }),
    attributes: create('textarea', { name: 'attributes', maxLength: 10_000, rows: 4, value: texts.attributes }),
  }
  // Beside the label: in it, all of this would be the name of the control.
  controls.attributes.setAttribute('aria-describedby', 'attributes-hint')
  return {
    elements: [
      field('Name', controls.name),
      field('SKU', controls.sku),
      field('Category', controls.category),
      field('Price', controls.price, 'In major units, with a point: 12.50.'),
      field('Currency', controls.currency),
      field('Description', controls.description),
      create(
        'div',
        {},
        field('Attributes', controls.attributes),
        create('small', { class: 'muted', id: 'attributes-hint' }, ATTRIBUTES_HINT),
      ),
    ],
    read: () => Object.fromEntries(FIELD_NAMES.map((name) => [name, controls[name].value])) as unknown as ProductTexts,
    write: (next) => {
      for (const name of FIELD_NAMES) if (next[name] !== undefined) controls[name].value = next[name]
    },
  }
}

/** Exact, in minor units. Throws with the way to write it. */
export function readPrice({ price, currency }: ProductTexts): Schemas['Money'] {
  const amount = parseMajorUnits(price.trim(), currency)
  if (amount !== null) return { amount, currency }
  const digits = minorDigits(currency)
  const decimals = digits === 0 ? 'no decimals' : `at most ${digits} decimals`
  throw new Error(
    `The price must be a number such as ${formatMajorUnits({ amount: 1_250, currency })}, with a point and ${decimals} for ${currency}.`,
  )
}

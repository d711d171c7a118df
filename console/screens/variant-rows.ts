import type { components } from '../../client/src/schema.ts'
import { amountText } from '../kit/amount.ts'
import { t } from '../kit/language.ts'

/** What an operator sees and changes in the row of a variant. */
export interface Cells {
  options: Readonly<Record<string, string>>
  sku: string
  /** The entered prices by currency. */
  prices: Readonly<Record<string, string>>
  /** The stock is not tracked when this is empty. */
  stock: string
}

/** A column of the grid: an option, a price, the SKU or the stock. */
export type GridColumn = { kind: 'option'; name: string } | { kind: 'price'; name: string } | { kind: 'sku' } | { kind: 'stock' }

export function cellsOf(
  product: Pick<components['schemas']['EditedProduct'], 'options' | 'sku' | 'price' | 'prices'>,
  stock: number | null | undefined,
): Cells {
  const prices = [product.price, ...product.prices].map(({ amount, currency }) => [currency, amountText({ amount, currency })])
  return {
    options: product.options,
    sku: product.sku,
    prices: Object.fromEntries(prices),
    stock: stock === null || stock === undefined ? '' : String(stock),
  }
}

export function readCell(cells: Cells, column: GridColumn): string {
  if (column.kind === 'option') return cells.options[column.name] ?? ''
  return column.kind === 'price' ? (cells.prices[column.name] ?? '') : cells[column.kind]
}

export function withCell(cells: Cells, column: GridColumn, text: string): Cells {
  if (column.kind === 'option') return { ...cells, options: { ...cells.options, [column.name]: text } }
  return column.kind === 'price' ? { ...cells, prices: { ...cells.prices, [column.name]: text } } : { ...cells, [column.kind]: text }
}

/** The stored cells, replaced by those that the operator has changed. */
export function mergeCells(stored: Cells, changed: Partial<Cells> = {}): Cells {
  const options = { ...stored.options, ...changed.options }
  return { ...stored, ...changed, options, prices: { ...stored.prices, ...changed.prices } }
}

export function changedCells(stored: Cells, { options, prices, sku, stock }: Cells): Partial<Cells> {
  const differing = (after: Cells['options'], before: Cells['options']) =>
    Object.fromEntries(Object.entries(after).filter(([name, text]) => text !== (before[name] ?? '')))
  return {
    ...{ options: differing(options, stored.options), prices: differing(prices, stored.prices) },
    ...(sku === stored.sku ? {} : { sku }),
    ...(stock === stored.stock ? {} : { stock }),
  }
}

/** Each combination of one value per option. Commas separate the values of an option. */
export function combine(options: readonly { name: string; values: string }[]): Record<string, string>[] {
  const lists = options
    .map(({ name, values }) => [name.trim(), [...new Set(values.split(/[,;\n]/).map((value) => value.trim()))].filter(Boolean)] as const)
    .filter(([name, values]) => name !== '' && values.length > 0)
  if (lists.length === 0) return []
  return lists.reduce<Record<string, string>[]>(
    (made, [name, values]) => made.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  )
}

/** A SKU that begins with the product's, such as `SHIRT-S-RED`. */
export function skuFor(base: string, options: Readonly<Record<string, string>>): string {
  const parts = Object.values(options).map((value) => value.toUpperCase().replace(/[^\p{L}\p{N}]+/gu, '-'))
  return [base, ...parts].join('-').slice(0, 64)
}

export function isSameOptions(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])]
  return names.every((name) => (a[name] ?? '') === (b[name] ?? ''))
}

export function pastedRows(text: string): string[][] {
  const lines = text.replaceAll('\r', '').split('\n')
  return lines.filter((line) => line.trim() !== '').map((line) => line.split('\t').map((each) => each.trim()))
}

/**
 * The columns that a header row names: one is the SKU, and unknown names are options. Null when the row is no header.
 */
export function headerOf(first: readonly string[], currencies: readonly string[]): GridColumn[] | null {
  if (!first.some((title) => /^sku$/i.test(title))) return null
  return first.map((title): GridColumn => {
    if (/^sku$/i.test(title)) return { kind: 'sku' }
    if (/^(?:stock|quantity|units)$/i.test(title) || title === t`Stock`) return { kind: 'stock' }
    const named = currencies.find((currency) => title.toUpperCase().split(/\W+/).includes(currency))
    if (named !== undefined || /^price$/i.test(title) || title === t`Price`) return { kind: 'price', name: named ?? currencies[0] ?? '' }
    return { kind: 'option', name: title }
  })
}

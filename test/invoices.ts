import { existsSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'

export interface InvoiceLine {
  sku: string
  name: string
  quantity: number
  /** Pence. */
  unitAmount: number
}

export interface Invoice {
  number: string
  /** Empty for a guest. */
  customer: string
  country: string
  /** The shop's day, `YYYY-MM-DD`. */
  day: string
  /** The shop's time, `HH:MM`. */
  time: string
  lines: InvoiceLine[]
}

const SAMPLE = new URL('../examples/analytics/sample/invoices.csv', import.meta.url)

/**
 * The files of invoices that are there, in the form of "Online Retail" (Daqing Chen, UCI Machine Learning Repository,
 * 2015): the sample of examples/analytics, and the file that RETAIL_INVOICES names, whose data are not ours to
 * distribute.
 */
export function invoiceFiles(retail = process.env.RETAIL_INVOICES): { name: string; invoices: Invoice[] }[] {
  const files = [{ name: 'the sample', path: SAMPLE as URL | string }]
  if (retail !== undefined && retail !== '' && existsSync(retail)) files.push({ name: 'the retailer', path: retail })
  return files.map(({ name, path }) => ({ name, invoices: parseInvoices(readText(path)) }))
}

function readText(path: URL | string): string {
  const bytes = readFileSync(path)
  return String(path).endsWith('.gz') ? gunzipSync(bytes).toString('latin1') : bytes.toString('utf8')
}

/** Leaves out cancellations, and lines that have no price or quantity. Lines of one product are one line. */
function parseInvoices(text: string): Invoice[] {
  const invoices = new Map<string, Invoice>()
  const prices = new Map<string, number>()
  for (const row of text.replaceAll('\r', '').split('\n').slice(1)) {
    const [number = '', sku = '', name = '', quantityText, at = '', price, customer = '', country = ''] = splitRow(row)
    const [quantity, amount] = [Number(quantityText), Math.round(Number(price) * 100)]
    if (country === '' || number.startsWith('C') || quantity <= 0 || amount < 1) continue
    // A product has the price of its first invoice, as an order has that of its catalogue.
    const unitAmount = prices.get(sku) ?? amount
    prices.set(sku, unitAmount)
    const [, day, month, year, time = ''] = /^(\d+)\/(\d+)\/(\d+) (\d+:\d+)$/.exec(at) ?? []
    const invoice = invoices.get(number) ?? { number, customer, country, day: `${year}-${month}-${day}`, time, lines: [] }
    invoices.set(number, invoice)
    const line = invoice.lines.find((each) => each.sku === sku)
    if (line !== undefined) line.quantity += quantity
    else invoice.lines.push({ sku, name, quantity, unitAmount })
  }
  return [...invoices.values()]
}

function splitRow(row: string): string[] {
  return [...row.matchAll(/("([^"]*)"|[^,]*)(,|$)/g)].map(([, plain = '', quoted]) => quoted ?? plain)
}

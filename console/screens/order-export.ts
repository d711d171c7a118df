import { formatMajorUnits } from '../../client/src/currency.ts'
import { toCsv } from '../kit/csv.ts'
import { download } from '../kit/download.ts'
import { dayOf } from '../kit/times.ts'
import { attributeTexts, fulfilmentOf, type Order } from './order-parts.ts'
import { packedLines } from './packed-lines.ts'

const TEXT = 'VARCHAR'

const COLUMNS: readonly [name: string, type: string, cell: (order: Order) => string | null | undefined][] = [
  ['number', TEXT, ({ number }) => number],
  ['placed_at', TEXT, ({ created_at }) => created_at],
  ['status', TEXT, ({ status }) => status],
  ['fulfilment', TEXT, fulfilmentOf],
  ['payment', TEXT, ({ payment }) => payment?.state],
  ['total', 'DECIMAL', ({ total }) => formatMajorUnits(total)],
  ['currency', TEXT, ({ total }) => total.currency],
  [
    'items',
    TEXT,
    (order) =>
      packedLines(order)
        .map(({ units, item }) => [`${units} × ${item.sku}`, ...attributeTexts(item)].join(', '))
        .join('; '),
  ],
  ['name', TEXT, ({ shipping_address: to }) => to?.name],
  ['company', TEXT, ({ shipping_address: to }) => to?.company],
  ['street', TEXT, ({ shipping_address: to }) => [to?.line1, to?.line2].filter(Boolean).join(', ')],
  ['postal_code', TEXT, ({ shipping_address: to }) => to?.postal_code],
  ['city', TEXT, ({ shipping_address: to }) => to?.city],
  ['region', TEXT, ({ shipping_address: to }) => to?.region],
  ['country', TEXT, ({ shipping_address: to }) => to?.country],
  ['phone', TEXT, ({ shipping_address: to }) => to?.phone],
  ['carrier', TEXT, ({ parcels }) => parcels.at(-1)?.tracking?.carrier],
  ['parcel_number', TEXT, ({ parcels }) => parcels.at(-1)?.tracking?.number],
]

/** Offers orders as a CSV file for a carrier's program or a spreadsheet. */
export function exportOrders(orders: readonly Order[]): void {
  const rows = orders.map((order) => COLUMNS.map(([, , cell]) => cell(order)))
  const text = toCsv(
    COLUMNS.map(([name, type]) => ({ name, type })),
    rows,
  )
  // Excel recognizes UTF-8 only by a byte-order mark.
  download(`orders-${dayOf(new Date())}.csv`, new Blob(['\uFEFF', text], { type: 'text/csv' }))
}

import { sql } from '../db/sql.ts'
import { BIGINT, type TableView, TIMESTAMPTZ, VARCHAR } from './lake-columns.ts'
import { LAKE_COLUMNS } from './lake-row.ts'

const { order_id, order_number, user_id, currency, currency_exponent, created_at, version, shipping_country, total_amount } = LAKE_COLUMNS
const { payment_provider, payment_state } = LAKE_COLUMNS
const OF_ORDER = { order_id, order_number, currency, currency_exponent, created_at }
const PAYMENT = { payment_provider, payment_reference: VARCHAR, payment_state }
const BY_ORDER = { id: 'order_id', key: 'created_at', monthOf: 'created_at' }
const REPORTS = sql`
  select
    order_id, order_number, currency, currency_exponent, created_at, total_amount,
    report.version as version, report.provider as payment_provider, report.reference as payment_reference, report.state as payment_state,
    report.at::timestamptz as reported_at, report.amount as amount, report.refund_reference as reference,
    to_json(report.lines)::varchar as lines
  from (
    select
      *,
      unnest(from_json(payments, '[{ "version": "INTEGER", "provider": "VARCHAR", "reference": "VARCHAR", "state": "VARCHAR", "at": "VARCHAR", "amount": "BIGINT", "refund_reference": "VARCHAR", "lines": [{ "product_id": "VARCHAR", "quantity": "BIGINT", "amount": "BIGINT" }] }]'))
        as report
    from orders
  )`

interface OrderView extends TableView {
  name: 'adjustments' | 'payments' | 'refunds' | 'parcels' | 'customers'
}

export const ORDER_VIEWS: readonly OrderView[] = [
  {
    name: 'adjustments',
    description: 'A row for each charge or discount besides the lines that was not voided, with its label.',
    columns: { ...OF_ORDER, version, kind: VARCHAR, label: VARCHAR, amount: BIGINT, made_at: TIMESTAMPTZ, reference: VARCHAR },
    ...BY_ORDER,
    order: sql`order_number, version`,
    select: sql`
      select
        order_id, order_number, currency, currency_exponent, created_at,
        made.version as version, made.kind as kind, made.label as label, made.amount as amount, made.made_at::timestamptz as made_at,
        made.reference as reference
      from (
        select
          *,
          unnest(from_json(adjustments, '[{ "version": "INTEGER", "kind": "VARCHAR", "label": "VARCHAR", "amount": "BIGINT", "made_at": "VARCHAR", "reference": "VARCHAR" }]'))
            as made
        from orders
      )`,
  },
  {
    name: 'payments',
    description: 'A row for each payment of an order in its newest state, as the provider or a refund has left it.',
    columns: { ...OF_ORDER, total_amount, ...PAYMENT, reported_at: TIMESTAMPTZ, changed_at: TIMESTAMPTZ },
    ...BY_ORDER,
    order: sql`order_number, reported_at, payment_reference`,
    select: sql`
      select
        order_id, any_value(order_number) as order_number, any_value(currency) as currency, any_value(currency_exponent) as currency_exponent,
        any_value(created_at) as created_at, any_value(total_amount) as total_amount,
        payment_provider, payment_reference, arg_max(payment_state, version) as payment_state,
        min(reported_at) as reported_at, max(reported_at) as changed_at
      from (${REPORTS})
      group by order_id, payment_provider, payment_reference`,
  },
  {
    name: 'refunds',
    description: 'A row for each refund: one of the shop has its amount, and one that only the provider has reported may lack it.',
    columns: { ...OF_ORDER, version, ...PAYMENT, amount: BIGINT, refunded_at: TIMESTAMPTZ, reference: VARCHAR, lines: VARCHAR },
    ...BY_ORDER,
    order: sql`order_number, version`,
    select: sql`
      select
        order_id, order_number, currency, currency_exponent, created_at, version, payment_provider, payment_reference, payment_state,
        amount, reported_at as refunded_at, reference, lines
      from (${REPORTS})
      where payment_state in ('partially_refunded', 'refunded') and amount is distinct from 0`,
  },
  {
    name: 'parcels',
    description: 'A row for each parcel of an order, with carrier and tracking.',
    columns: {
      ...{ order_id, order_number, created_at, shipping_country, version, shipped_at: TIMESTAMPTZ, reference: VARCHAR },
      ...{ carrier: VARCHAR, tracking_number: VARCHAR, tracking_url: VARCHAR, units: BIGINT, lines: VARCHAR },
    },
    ...BY_ORDER,
    order: sql`order_number, version`,
    select: sql`
      select
        order_id, order_number, created_at, shipping_country, parcel.version as version, parcel.shipped_at::timestamptz as shipped_at,
        parcel.reference as reference, parcel.tracking.carrier as carrier, parcel.tracking.number as tracking_number,
        parcel.tracking.url as tracking_url, list_sum(list_transform(parcel.lines, lambda line: line.quantity))::bigint as units,
        to_json(parcel.lines)::varchar as lines
      from (
        select
          *,
          unnest(from_json(parcels, '[{ "version": "INTEGER", "shipped_at": "VARCHAR", "reference": "VARCHAR", "tracking": { "carrier": "VARCHAR", "number": "VARCHAR", "url": "VARCHAR" }, "lines": [{ "product_id": "VARCHAR", "quantity": "BIGINT" }] }]'))
            as parcel
        from orders
      )`,
  },
  {
    name: 'customers',
    description: 'A row for each customer, account or guest, with an order: without personal data.',
    columns: {
      ...{ user_id, first_order_at: TIMESTAMPTZ, last_order_at: TIMESTAMPTZ, first_country: VARCHAR, shipping_country },
      ...{ order_count: BIGINT, cancelled_count: BIGINT },
    },
    ...{ id: 'user_id', key: 'user_id' },
    order: sql`user_id`,
    select: sql`
      select
        user_id, min(created_at) as first_order_at, max(created_at) as last_order_at,
        arg_min(shipping_country, created_at) as first_country, arg_max(shipping_country, created_at) as shipping_country,
        count(*) as order_count, count_if(status = 'cancelled')::bigint as cancelled_count
      from orders
      group by user_id`,
  },
]

import { isDeepStrictEqual } from 'node:util'
import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Transaction } from '../db/pool.ts'
import { commaList, identifier, sql } from '../db/sql.ts'
import type { OrderItem, OrderRow, StatusChange } from '../orders/order.ts'
import { recordList, selectList } from '../orders/order-column-sql.ts'
import type { LaterColumn } from '../orders/order-columns.ts'
import type { LineOutcome, Refusal } from './move-in.ts'
import type { ImportedOrder } from './order-line.ts'
import { idOfSource } from './source-ids.ts'

const AUDIT_CONTEXT: AuditContext = { actor: { type: 'system', id: null }, action: 'import orders', requestId: null }

const BY_OTHER_SHOP: StatusChange['actor'] = { type: 'system', id: null }

export interface NumberedOrder {
  line: number
  order: ImportedOrder
  id: string
  /** The same id as in `imported_customers`; null if the line has only an address. */
  customerId: string | null
  email: string | null
  digest: Buffer
}

interface Storing {
  source: string
  isDryRun: boolean
}

export interface StoredOrders {
  outcomes: (LineOutcome | Refusal)[]
  /** The log position after the inserted orders; null if none was inserted. */
  position: string | null
}

/** Ids and numbers must differ. */
export async function storeOrders(tx: Transaction, batch: readonly NumberedOrder[], { source, isDryRun }: Storing): Promise<StoredOrders> {
  const imported = await findImported(tx, batch)
  const fresh = batch.filter(({ id }) => !imported.has(id))
  const customers = await findCustomers(tx, fresh)
  const takenNumbers = await findNumbers(tx, fresh)
  const takenReferences = await findReferences(tx, fresh, customers)
  const outcomes = batch.map((numbered): LineOutcome | Refusal => {
    const present = imported.get(numbered.id)
    if (present !== undefined) return isSame(numbered, present) ? 'unchanged' : 'changed'
    if (numbered.order.number !== null && takenNumbers.has(numbered.order.number))
      return { refusal: `number ${numbered.order.number} belongs to another order of the store` }
    const customer = customers.get(numbered.id) ?? { refusal: 'there is no such customer' }
    if ('refusal' in customer) return customer
    return takenReferences.has(numbered.id) ? { refusal: 'reference belongs to another order of the customer' } : 'created'
  })
  const created = batch.filter((_, index) => outcomes[index] === 'created')
  if (isDryRun || created.length === 0) return { outcomes, position: null }
  const productIds = await findProducts(tx, created)
  const drawn = await drawNumbers(tx, created.filter(({ order }) => order.number === null).length)
  const rows = created.map(({ id, order }) => {
    const customer = customers.get(id)
    if (customer === undefined || 'refusal' in customer) throw new Error('an accepted order has no customer')
    return toRow(
      { id, order, number: order.number ?? drawn.pop() ?? 0 },
      customer.userId,
      (line) => productIds.get(line.sku) ?? idOfSource(source, 'product', line.sku || line.name),
    )
  })
  await insertOrders(tx, rows)
  const { rows: inserted } = await tx.query<{ position: string }>(sql`with known as (
      insert into imported_orders (order_id, source, digest)
      select order_id, ${source}, digest
      from unnest(${created.map(({ id }) => id)}::uuid[], ${created.map(({ digest }) => digest)}::bytea[]) as imported (order_id, digest)
    )
    select pg_current_wal_insert_lsn()::text as position`)
  await recordActivity(tx, AUDIT_CONTEXT, {
    subjectType: 'order',
    subjectId: null,
    before: null,
    after: { source, created: created.length },
  })
  return { outcomes, position: inserted[0]?.position ?? null }
}

const PERSONAL = { shipping_address: 'shippingAddress', billing_address: 'billingAddress', vat_number: 'vatNumber', note: 'note' } as const

type Imported = { digest: Buffer } & { [Column in keyof typeof PERSONAL]: ImportedOrder[(typeof PERSONAL)[Column]] }

async function findImported(tx: Transaction, batch: readonly NumberedOrder[]): Promise<Map<string, Imported>> {
  const movedIn = Object.keys(PERSONAL).map(
    // An amendment made here is no difference.
    (name) => sql`coalesce(
        (
          select value -> ${name}
          from jsonb_each(orders.former_values) as amendment (place, value)
          where value ? ${name}
          order by place::integer
          limit 1
        ),
        to_jsonb(orders.${identifier(name)})
      ) as ${identifier(name)}`,
  )
  const { rows } = await tx.query<Imported & { id: string }>(sql`select orders.id, imported.digest, ${commaList(movedIn)}
    from imported_orders as imported
    join orders on orders.id = imported.order_id
    where imported.order_id = any(${batch.map(({ id }) => id)}::uuid[])`)
  return new Map(rows.map((row) => [row.id, row]))
}

/** A null in the store may be an erased value. The digest knows whether there was one. */
function isSame({ order, digest }: NumberedOrder, present: Imported): boolean {
  const names = Object.keys(PERSONAL) as (keyof typeof PERSONAL)[]
  const isEqual = names.every((name) => present[name] === null || isDeepStrictEqual(present[name], order[PERSONAL[name]]))
  return digest.equals(present.digest) && isEqual
}

async function findNumbers(tx: Transaction, batch: readonly NumberedOrder[]): Promise<Set<number>> {
  const { rows } = await tx.query<{ number: number }>(
    sql`select number from orders where number = any(${batch.flatMap(({ order }) => order.number ?? [])}::bigint[])`,
  )
  return new Set(rows.map(({ number }) => number))
}

async function drawNumbers(tx: Transaction, count: number): Promise<number[]> {
  if (count === 0) return []
  const { rows } = await tx.query<{ number: number }>(
    sql`select nextval('order_numbers') as number from generate_series(1, ${count}::integer)`,
  )
  return rows.map(({ number }) => number).reverse()
}

/** Orders whose reference another order of their customer has. */
async function findReferences(
  tx: Transaction,
  batch: readonly NumberedOrder[],
  customers: Awaited<ReturnType<typeof findCustomers>>,
): Promise<Set<string>> {
  const wanted = batch.flatMap(({ id, order: { reference } }) => {
    const customer = customers.get(id)
    return reference === null || customer === undefined || 'refusal' in customer ? [] : [{ id, user_id: customer.userId, reference }]
  })
  if (wanted.length === 0) return new Set()
  const { rows } = await tx.query<{ id: string }>(sql`select wanted.id
    from json_to_recordset(${JSON.stringify(wanted)}::json) as wanted (id uuid, user_id uuid, reference text)
    join orders on orders.user_id = wanted.user_id and orders.client_reference = wanted.reference`)
  return new Set(rows.map(({ id }) => id))
}

/** A line without a product here stays, with an id that depends on its sku. */
async function findProducts(tx: Transaction, batch: readonly NumberedOrder[]): Promise<Map<string, string>> {
  const skus = new Set(batch.flatMap(({ order }) => order.lines.map(({ sku }) => sku)))
  const { rows } = await tx.query<{ id: string; sku: string }>(sql`select id, sku from products where sku = any(${[...skus]}::text[])`)
  return new Map(rows.map(({ id, sku }) => [sku, id]))
}

/** The total is that of the lines. Other charges are in the history. */
type ImportedRow = Omit<OrderRow, 'traceparent' | Exclude<LaterColumn, keyof typeof PERSONAL> | 'created_at' | 'updated_at'> & {
  product_ids: string[]
  created_at: string
  updated_at: string
}

function toRow(
  { id, order, number }: { id: string; order: ImportedOrder; number: number },
  userId: string,
  productIdOf: (line: ImportedOrder['lines'][number]) => string,
): ImportedRow {
  const { currency } = order
  const items = order.lines.map((line): OrderItem => {
    const { sku, name, category, unit_price, quantity } = line
    const [price, total] = [unit_price, unit_price * quantity].map((amount) => ({ amount, currency }))
    return {
      product_id: productIdOf(line),
      sku,
      name,
      ...(category === undefined ? {} : { category }),
      unit_price: price as OrderItem['unit_price'],
      quantity,
      total: total as OrderItem['total'],
    }
  })
  const [placed, ...moves] = order.history.map(({ status, at, reason, ...details }, index): StatusChange => {
    const actor = index === 0 ? ({ type: 'customer', id: userId } as const) : BY_OTHER_SHOP
    return { status, at, actor, reason, ...details, imported: true }
  })
  if (placed === undefined) throw new Error('an order without a history was accepted')
  const charges = order.adjustments.map(({ kind, label, amount }): StatusChange => {
    const change = { type: 'adjusted', kind, label, amount } as const
    return { status: placed.status, at: placed.at, actor: BY_OTHER_SHOP, reason: null, change, imported: true }
  })
  const history = [placed, ...charges, ...moves]
  const last = history.at(-1) ?? placed
  return {
    id,
    number,
    user_id: userId,
    status: last.status,
    items,
    product_ids: [...new Set(items.map((item) => item.product_id))],
    total_amount: order.lines.reduce((sum, { unit_price, quantity }) => sum + unit_price * quantity, 0),
    currency,
    client_reference: order.reference,
    shipping_address: order.shippingAddress,
    billing_address: order.billingAddress,
    vat_number: order.vatNumber,
    note: order.note,
    version: history.length,
    status_history: history,
    created_at: placed.at,
    updated_at: last.at,
  }
}

/** Inserts orders by number, so the change stream has the oldest first. */
async function insertOrders(tx: Transaction, orders: readonly ImportedRow[]): Promise<void> {
  const sorted = orders.toSorted((a, b) => a.number - b.number)
  await tx.query(sql`insert into orders (product_ids, ${selectList()})
    select product_ids, ${selectList()}
    from json_to_recordset(${JSON.stringify(sorted)}::json) as moved (product_ids uuid[], ${recordList()})`)
}

interface OrderedBy {
  id: string
  /** It is null where the line has only an address. */
  customerId: string | null
  email: string | null
}

/**
 * Finds customers by id, otherwise by an imported or proven address. Another account must not get a person's orders.
 */
async function findCustomers(tx: Transaction, orders: readonly OrderedBy[]): Promise<Map<string, { userId: string } | Refusal>> {
  const ids = orders.flatMap(({ customerId }) => customerId ?? [])
  const emails = orders.flatMap(({ email }) => email ?? [])
  const { rows: known } = await tx.query<{ id: string; user_id: string | null }>(
    sql`select id, user_id from imported_customers where id = any(${ids}::uuid[])`,
  )
  const { rows: accounts } = await tx.query<{ id: string; email: string }>(sql`select id, email
    from users
    where email = any(${emails}) and role <> 'guest'
      and (email_verified_at is not null or exists (select from imported_customers where imported_customers.user_id = users.id))`)
  const byId = new Map(known.map((row) => [row.id, row.user_id]))
  const byEmail = new Map(accounts.map(({ id, email }) => [email, id]))
  return new Map(orders.map((order) => [order.id, decide(order, byId, byEmail)]))
}

function decide(
  { customerId, email }: OrderedBy,
  byId: ReadonlyMap<string, string | null>,
  byEmail: ReadonlyMap<string, string>,
): { userId: string } | Refusal {
  const imported = customerId === null ? undefined : byId.get(customerId)
  if (imported === null) return { refusal: 'its customer has deleted their account here' }
  const userId = imported ?? (email === null ? undefined : byEmail.get(email))
  if (userId !== undefined) return { userId }
  const hint = customerId === null ? '; a guest is found by external_id only' : ''
  return { refusal: `there is no such customer: import the customers first${hint}` }
}

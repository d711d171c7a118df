import { setTimeout as delay } from 'node:timers/promises'
import { SeenSkus } from '../catalogue/import/seen-skus.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { OperatorError } from '../errors.ts'
import { interpret, type JsonLine } from './json-lines.ts'
import { CHANGED, type MoveInOptions, type MoveInResult, noOutcomes, storeInParts } from './move-in.ts'
import { groupOf, type ImportedOrder, readOrder } from './order-line.ts'
import { digestOf, idOfSource } from './source-ids.ts'
import { type NumberedOrder, storeOrders } from './store-orders.ts'
import { Tally } from './tally.ts'

/** Events of new orders wait for the events of one batch. */
const BATCH_SIZE = 200
const MAX_BATCH_LINES = 4_000

export interface OrderImportOptions extends MoveInOptions {
  /** Waits until the change stream has published everything up to this log position. */
  untilPublished: (position: string) => Promise<void>
}

/**
 * Imports orders. Takes no stock and sends no message. A run can be repeated. `open` is called twice, because the
 * greatest number must be known before the first order is stored.
 */
export async function importOrders(pool: Pool, open: () => AsyncIterable<JsonLine>, options: OrderImportOptions): Promise<MoveInResult> {
  if (!options.isDryRun) {
    const { onProgress: _, ...quiet } = options
    const { greatestNumber } = await readOrders(pool, open(), { ...quiet, isDryRun: true, onProblem: () => {} })
    if (greatestNumber > 0) await pool.query(sql`select reserve_order_numbers(${greatestNumber})`)
  }
  return readOrders(pool, open(), options)
}

/**
 * Reads the orders. `greatestNumber` is that of the stored orders, or of those that a dry run would store; 0 if there
 * are none.
 */
async function readOrders(
  pool: Pool,
  lines: AsyncIterable<JsonLine>,
  options: OrderImportOptions,
): Promise<MoveInResult & { greatestNumber: number }> {
  const result = { outcomes: noOutcomes(), source: new Tally(), store: new Tally(), greatestNumber: 0 }
  const seen = { ids: new SeenSkus(), numbers: new SeenSkus(), references: new SeenSkus() }
  let batch: NumberedOrder[] = []
  let batchLines = 0
  let lineCount = 0
  const refuse = (line: number, reason: string) => {
    result.outcomes.refused++
    options.onProblem(line, reason)
  }
  const finish = async () => {
    let position: string | null = null
    const outcomes = await storeInParts(batch, async (part) => {
      const stored = await inTransaction(pool, (tx) => storeOrders(tx, part, options))
      position = stored.position ?? position
      return stored.outcomes
    })
    for (const [index, outcome] of outcomes.entries()) {
      const { line = 0, order } = batch[index] ?? {}
      if (outcome === 'created') result.greatestNumber = Math.max(result.greatestNumber, order?.number ?? 0)
      if (typeof outcome === 'object') refuse(line, outcome.refusal)
      else result.outcomes[outcome]++
      if (outcome === 'changed') options.onProblem(line, CHANGED)
    }
    if (!options.isDryRun) await countStored(pool, batch, result.store)
    batch = []
    batchLines = 0
    options.onProgress?.(lineCount)
    if (position !== null) await options.untilPublished(position)
  }
  for await (const read of lines) {
    lineCount++
    const { line } = read
    const { group, amount } = groupOf('value' in read ? read.value : null)
    result.source.add(group, amount)
    const interpreted = interpret(read, (value) => readOrder(value, options.now()))
    const problem = 'error' in interpreted ? interpreted.error : findDouble(seen, interpreted.item, line)
    if (problem !== null) refuse(line, problem)
    else if ('item' in interpreted) {
      batch.push(numbered(line, interpreted.item, options.source))
      batchLines += interpreted.item.lines.length
    }
    if (batch.length >= BATCH_SIZE || batchLines >= MAX_BATCH_LINES) await finish()
  }
  await finish()
  return result
}

function numbered(line: number, order: ImportedOrder, source: string): NumberedOrder {
  // Personal data could be guessed from a digest, so it contains only whether there is some. Address and note are
  // compared with those of the row.
  const { shippingAddress, billingAddress, vatNumber, note, customer: _customer, ...content } = order
  const { externalId, email } = order.customer
  return {
    line,
    order,
    id: idOfSource(source, 'order', order.externalId),
    customerId: externalId === null ? null : idOfSource(source, 'customer', externalId),
    email,
    digest: digestOf({
      ...{ ...content, hasAddress: shippingAddress !== null, hasNote: note !== null },
      // Orders imported by earlier releases have neither, and keep their digest.
      ...(billingAddress === null ? {} : { hasBillingAddress: true }),
      ...(vatNumber === null ? {} : { hasVatNumber: true }),
    }),
  }
}

type Seen = Record<'ids' | 'numbers' | 'references', SeenSkus>

function findDouble(seen: Seen, { externalId, number, reference, customer }: ImportedOrder, line: number): string | null {
  const withId = seen.ids.add(externalId, line)
  if (withId !== undefined) return `external_id was already on line ${withId}`
  const withNumber = number === null ? undefined : seen.numbers.add(String(number), line)
  if (withNumber !== undefined) return `number ${number} was already on line ${withNumber}`
  if (reference === null) return null
  const withReference = seen.references.add(JSON.stringify([customer.externalId ?? customer.email, reference]), line)
  return withReference === undefined ? null : `reference was already on line ${withReference}, of the same customer`
}

/** Read after the commit. The status is the last that was moved in, because the order may have changed here. */
async function countStored(pool: Pool, batch: readonly NumberedOrder[], store: Tally): Promise<void> {
  const { rows } = await pool.query<{ currency: string; status: string; orders: number; amount: string }>(sql`select
      orders.currency, moved.status, count(*) as orders, sum(orders.total_amount + moved.adjusted)::text as amount
    from orders
    join imported_orders on imported_orders.order_id = orders.id
    cross join lateral (
      select (array_agg(entry ->> 'status' order by place desc))[1] as status, coalesce(sum((entry -> 'change' ->> 'amount')::bigint), 0) as adjusted
      from jsonb_array_elements(orders.status_history) with ordinality as history (entry, place)
      where entry -> 'imported' = 'true'
    ) as moved
    where orders.id = any(${batch.map(({ id }) => id)}::uuid[])
    group by orders.currency, moved.status`)
  for (const { currency, status, orders, amount } of rows) store.add(`${currency} ${status}`, BigInt(amount), orders)
}

const POLL_MS = 20
const MAX_WAIT_MS = 120_000

/**
 * New orders wait for one batch at most. Returns at once when no stream runs. Throws OperatorError after two minutes.
 */
export async function untilPublished(pool: Pool, slotName: string, position: string): Promise<void> {
  const deadline = performance.now() + MAX_WAIT_MS
  for (;;) {
    const { rows } = await pool.query<{ is_behind: boolean }>(sql`select active and confirmed_flush_lsn < ${position}::pg_lsn as is_behind
      from pg_replication_slots
      where slot_name = ${slotName}`)
    if (rows[0]?.is_behind !== true) return
    if (performance.now() > deadline) {
      throw new OperatorError(
        'the change stream publishes nothing: /readyz of its process shows why; run the import again later, which continues where it stopped',
      )
    }
    await delay(POLL_MS)
  }
}

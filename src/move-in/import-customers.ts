import { SeenSkus } from '../catalogue/import/seen-skus.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { type ImportedCustomer, readCustomer } from './customer-line.ts'
import { interpret, type JsonLine } from './json-lines.ts'
import { CHANGED, type MoveInOptions, type MoveInResult, noOutcomes, storeInParts } from './move-in.ts'
import { digestOf, idOfSource } from './source-ids.ts'
import { type NumberedCustomer, storeCustomers } from './store-customers.ts'
import { Tally } from './tally.ts'

const BATCH_SIZE = 500
const GROUP = 'customers'

export interface CustomerImportOptions extends MoveInOptions {
  /** Whether a customer with an unusable hash is imported without a password. Otherwise the line is refused. */
  dropsUnusableHashes: boolean
  unmatchableHash: () => string
}

/** Links an account only with a proven address, because a stranger could have registered it. A run can be repeated. */
export async function importCustomers(pool: Pool, lines: AsyncIterable<JsonLine>, options: CustomerImportOptions): Promise<MoveInResult> {
  const result: MoveInResult = { outcomes: noOutcomes(), source: new Tally(), store: new Tally() }
  const seen = { ids: new SeenSkus(), emails: new SeenSkus() }
  let batch: NumberedCustomer[] = []
  let lineCount = 0
  const refuse = (line: number, reason: string) => {
    result.outcomes.refused++
    options.onProblem(line, reason)
  }
  const finish = async () => {
    const outcomes = await storeInParts(batch, (part) => inTransaction(pool, (tx) => storeCustomers(tx, part, options)))
    for (const [index, outcome] of outcomes.entries()) {
      const line = batch[index]?.line ?? 0
      if (typeof outcome === 'object') refuse(line, outcome.refusal)
      else result.outcomes[outcome]++
      if (outcome === 'changed') options.onProblem(line, CHANGED)
    }
    if (!options.isDryRun) result.store.add(GROUP, 0n, await countStored(pool, batch))
    batch = []
    options.onProgress?.(lineCount)
  }
  for await (const read of lines) {
    lineCount++
    result.source.add(GROUP)
    const { line } = read
    const interpreted = interpret(read, (value) => readCustomer(value, options.now(), options.dropsUnusableHashes))
    const problem = 'error' in interpreted ? interpreted.error : findDouble(seen, interpreted.item, line)
    if (problem !== null) refuse(line, problem)
    else if ('item' in interpreted) {
      const { item: customer, value } = interpreted
      batch.push({ line, customer, id: idOfSource(options.source, 'customer', customer.externalId), digest: digestOf(value) })
    }
    if (batch.length >= BATCH_SIZE) await finish()
  }
  await finish()
  return result
}

/** Guests may share an address. Other customers may not, in any case of letters. */
function findDouble(
  seen: { ids: SeenSkus; emails: SeenSkus },
  { externalId, email, isGuest }: ImportedCustomer,
  line: number,
): string | null {
  const withId = seen.ids.add(externalId, line)
  if (withId !== undefined) return `external_id was already on line ${withId}`
  const withEmail = isGuest ? undefined : seen.emails.add(email, line)
  return withEmail === undefined ? null : `email was already on line ${withEmail}`
}

/** Read after the commit. A deleted account counts, because it must stay deleted. */
async function countStored(pool: Pool, batch: readonly NumberedCustomer[]): Promise<number> {
  const { rows } = await pool.query<{ found: number }>(sql`select count(*) as found
    from imported_customers as imported
    left join users on users.id = imported.user_id
    where imported.id = any(${batch.map(({ id }) => id)}::uuid[]) and (imported.user_id is null) = (users.id is null)`)
  return rows[0]?.found ?? 0
}

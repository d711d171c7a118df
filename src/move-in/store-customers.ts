import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { ImportedCustomer } from './customer-line.ts'
import type { LineOutcome, Refusal } from './move-in.ts'

const AUDIT_CONTEXT: AuditContext = { actor: { type: 'system', id: null }, action: 'import customers', requestId: null }

/** `id` identifies the customer in the other shop, and is the id of a new account. */
export interface NumberedCustomer {
  line: number
  customer: ImportedCustomer
  id: string
  digest: Buffer
}

interface Storing {
  source: string
  isDryRun: boolean
  now: () => Date
  unmatchableHash: () => string
}

/** Stores a batch. Ids and addresses must be unique. The outcomes are in the batch's order. */
export async function storeCustomers(
  tx: Transaction,
  batch: readonly NumberedCustomer[],
  options: Storing,
): Promise<(LineOutcome | Refusal)[]> {
  const imported = await findImported(tx, batch)
  const accounts = await findAccounts(
    tx,
    batch.filter(({ id, customer }) => !imported.has(id) && !customer.isGuest).map(({ customer }) => customer.email),
  )
  const reserved = await findReserved(
    tx,
    batch.map(({ customer }) => customer.email),
  )
  const decided = batch.map((numbered) => {
    const { email, isGuest } = numbered.customer
    const outcome = decide(numbered, imported.get(numbered.id), accounts.get(email))
    const isRefused = outcome === 'created' && !isGuest && reserved.has(email)
    return isRefused
      ? { refusal: 'an account had this address until lately, and may get it back: run the import again in a week' }
      : outcome
  })
  const isNew = (_: NumberedCustomer, index: number) => decided[index] === 'created'
  const isLinked = (_: NumberedCustomer, index: number) => decided[index] === 'linked'
  const [created, linked] = [batch.filter(isNew), batch.filter(isLinked)]
  if (options.isDryRun || created.length + linked.length === 0) return decided
  const inserted = await insertAccounts(tx, created, options)
  const stored = [
    ...created.filter(({ id }) => inserted.has(id)).map((numbered) => ({ ...numbered, userId: numbered.id })),
    ...linked.map((numbered) => ({ ...numbered, userId: accounts.get(numbered.customer.email)?.id ?? numbered.id })),
  ]
  await tx.query(sql`insert into imported_customers (id, user_id, digest)
    select id, user_id, digest
    from unnest(
      ${stored.map(({ id }) => id)}::uuid[], ${stored.map(({ userId }) => userId)}::uuid[], ${stored.map(({ digest }) => digest)}::bytea[]
    ) as customer (id, user_id, digest)`)
  const after = { source: options.source, created: inserted.size, linked: linked.length }
  await recordActivity(tx, AUDIT_CONTEXT, { subjectType: 'account', subjectId: null, before: null, after })
  return decided.map((outcome, index) => {
    const isLost = outcome === 'created' && !inserted.has(batch[index]?.id ?? '')
    return isLost ? { refusal: 'somebody has just registered this address; run the import again' } : outcome
  })
}

interface Imported {
  user_id: string | null
  digest: Buffer | null
}

async function findImported(tx: Transaction, batch: readonly NumberedCustomer[]): Promise<Map<string, Imported>> {
  const { rows } = await tx.query<Imported & { id: string }>(
    sql`select id, user_id, digest from imported_customers where id = any(${batch.map(({ id }) => id)}::uuid[])`,
  )
  return new Map(rows.map((row) => [row.id, row]))
}

interface Account {
  id: string
  is_proven: boolean
  is_imported: boolean
}

async function findAccounts(tx: Transaction, emails: readonly string[]): Promise<Map<string, Account>> {
  const { rows } = await tx.query<Account & { email: string }>(
    sql`select id, email, email_verified_at is not null as is_proven,
      exists (select from imported_customers where user_id = users.id) as is_imported
    from users where email = any(${emails}) and role <> 'guest'`,
  )
  return new Map(rows.map((row) => [row.email, row]))
}

/** The addresses that the database reserves for their previous owners. */
async function findReserved(tx: Transaction, emails: readonly string[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ old_email: string }>(
    sql`select old_email from email_changes where old_email = any(${emails}) and changed_at is not null and expires_at > now()`,
  )
  return new Set(rows.map(({ old_email }) => old_email))
}

function decide(
  { customer, digest }: NumberedCustomer,
  imported: Imported | undefined,
  account: Account | undefined,
): LineOutcome | Refusal {
  if (imported !== undefined) return imported.user_id === null ? 'erased' : imported.digest?.equals(digest) ? 'unchanged' : 'changed'
  if (customer.isGuest || account === undefined) return 'created'
  if (account.is_proven) return 'linked'
  return {
    refusal: account.is_imported
      ? 'the account with this address was imported with another --source or external_id: repeat an import with the same ones'
      : 'there is an account with this address, and its holder has not proven the address',
  }
}

/** Inserts accounts. Returns the inserted ids, because somebody may register an address at the same moment. */
async function insertAccounts(
  tx: Transaction,
  created: readonly NumberedCustomer[],
  { now, unmatchableHash }: Storing,
): Promise<Set<string>> {
  const column = <T>(pick: (customer: ImportedCustomer) => T) => created.map(({ customer }) => pick(customer))
  const at = now()
  const { rows } = await tx.query<{
    id: string
  }>(sql`insert into users (id, email, name, role, password_hash, created_at, email_verified_at)
    select id, email, name, role, password_hash, created_at, proven_at
    from unnest(
      ${created.map(({ id }) => id)}::uuid[], ${column(({ email }) => email)}::text[], ${column(({ name }) => name)}::text[],
      ${column(({ isGuest }) => (isGuest ? 'guest' : 'customer'))}::text[],
      ${column(({ isGuest, passwordHash }) => passwordHash ?? (isGuest ? null : unmatchableHash()))}::text[], ${column(({ createdAt }) => createdAt)}::timestamptz[],
      ${column(({ isAddressProven }) => (isAddressProven ? at : null))}::timestamptz[]
    ) as customer (id, email, name, role, password_hash, created_at, proven_at)
    on conflict do nothing
    returning id`)
  return new Set(rows.map(({ id }) => id))
}

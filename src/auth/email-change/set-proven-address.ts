import { translateConstraint } from '../../db/constraints.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'

/** Gives an account an address to which a token was mailed that has come back. Throws `email_taken`. */
export async function setProvenAddress(tx: Transaction, { id, email }: { id: string; email: string }, now: Date): Promise<void> {
  try {
    await tx.query(sql`update users set email = ${email}, email_verified_at = ${now} where id = ${id}`)
  } catch (error) {
    throw translateConstraint(error)
  }
}

import type { Transaction } from '../db/pool.ts'

/**
 * Erases the shipping address and the note in the events of these orders, whose rows have none any more, in the topic that is a table. What a
 * broker holds cannot be changed: see docs/decisions/0103-what-a-deleted-account-leaves.md.
 */
export async function eraseCopiesInTopic(tx: Transaction, orderIds: readonly string[]): Promise<void> {
  await tx.query('select erase_addresses_in_topic($1)', [orderIds])
}

import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { fillFrom, type GroupContent, membersOf } from './group-content.ts'
import type { ProductInput } from './product-input.ts'

/**
 * Returns a function that gives a product the values of its group, one of `groups`, in the place of empty members.
 * Locks the groups after the products, as `changeGroup` does, so a change of a group misses no variant that joins it.
 */
export async function readGroups(tx: Transaction, groups: readonly (string | null)[]): Promise<<T extends ProductInput>(product: T) => T> {
  const names = [...new Set(groups)].filter((name) => name !== null)
  const members = new Map(names.length === 0 ? [] : await readMembers(tx, names))
  return (product) => {
    const group = members.get(product.group ?? '')
    return group === undefined ? product : fillFrom(product, group)
  }
}

async function readMembers(tx: Transaction, names: readonly string[]) {
  const { rows } = await tx.query<{ name: string; content: GroupContent }>(
    sql`select name, content from product_groups where name = any(${names}) order by name for share`,
  )
  return rows.map(({ name, content }) => [name, membersOf(content)] as const)
}

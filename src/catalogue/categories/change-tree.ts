import { randomUUIDv7 } from 'node:crypto'
import { type AuditContext, difference, recordActivity } from '../../activity/record-activity.ts'
import { translateConstraint } from '../../db/constraints.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'
import type { IfMatch } from '../../http/if-match.ts'
import { type ChangedCatalogue, inCatalogue } from '../change-catalogue.ts'
import { readSlug } from '../slugs.ts'
import { type Category, categoryETag, countRoom, getCategory, lockTree, MAX_CATEGORIES } from './category.ts'
import type { CategoryPatch, NewCategory } from './category-input.ts'

/**
 * Adds a category. Without `slug` it gets a free one, and without `position` the last place among its siblings. Throws
 * `invalid_body`, `slug_taken`, `category_name_taken`, `category_misplaced` or `too_many_categories`.
 */
export async function createCategory(catalogue: ChangedCatalogue, input: NewCategory, auditContext: AuditContext): Promise<Category> {
  const { name, slug, parent_id = null, position } = input
  return changeTree(catalogue, async (tx) => {
    if ((await countRoom(tx)) === 0)
      throw new AppError('too_many_categories', `The store has ${MAX_CATEGORIES} or more categories, which is the limit. Delete one first.`)
    await assertParent(tx, parent_id)
    const id = randomUUIDv7()
    const chosen = slug === undefined ? await freeSlug(tx, { id, name, parentId: parent_id }) : await readSlug(tx, slug)
    await tx.query(sql`insert into categories (id, parent_id, slug, name) values (${id}, ${parent_id}, ${chosen}, ${name})`)
    if (position !== undefined) await placeAmongSiblings(tx, id, position)
    const created = await getCategory(tx, id)
    await recordActivity(tx, auditContext, { subjectType: 'category', subjectId: id, before: null, after: created })
    return created
  })
}

/**
 * Renames, moves or reorders a category if `ifMatch` names its state. `renameProducts` later renames its products.
 * Throws `not_found`, `precondition_failed`, `invalid_body`, `slug_taken`, `category_name_taken` or
 * `category_misplaced`.
 */
export async function changeCategory(
  catalogue: ChangedCatalogue,
  id: string,
  ifMatch: IfMatch,
  patch: CategoryPatch,
  auditContext: AuditContext,
): Promise<Category> {
  return changeTree(catalogue, async (tx) => {
    const current = await getMatching(tx, id, ifMatch)
    const next = { ...current, ...patch }
    const slug = patch.slug === undefined ? current.slug : await readSlug(tx, patch.slug)
    const isMoved = next.parent_id !== current.parent_id
    await assertParent(tx, next.parent_id)
    await tx.query(
      sql`update categories
       set name = ${next.name}, slug = ${slug}, parent_id = ${next.parent_id},
         position = case when ${isMoved} then null else position end,
         renamed_at = case when (name, slug) = (${next.name}, ${slug}) then renamed_at else clock_timestamp() end,
         updated_at = clock_timestamp()
       where id = ${id}`,
    )
    if (patch.position !== undefined) await placeAmongSiblings(tx, id, patch.position)
    const changed = await getCategory(tx, id)
    const differing = difference(current, changed)
    if (differing !== null) await recordActivity(tx, auditContext, { subjectType: 'category', subjectId: id, ...differing })
    return changed
  })
}

/**
 * Deletes a category without products and subcategories. Throws `not_found`, `precondition_failed` or
 * `category_not_empty`.
 */
export async function deleteCategory(catalogue: ChangedCatalogue, id: string, ifMatch: IfMatch, auditContext: AuditContext): Promise<void> {
  await changeTree(catalogue, async (tx) => {
    const current = await getMatching(tx, id, ifMatch)
    // Locks the category first, because a transaction with its lock may change these rows.
    await tx.query(sql`select from categories where id = ${id} for update`)
    // Removes archived products only; when sold again, they get a category from their text. A category with products or
    // drafts is refused below without reading its many rows.
    await tx.query(
      sql`delete from product_categories
      where category_id = ${id} and not is_listed
        and not exists (select from products where id = product_id and is_withheld)
        and not exists (select from product_categories where category_id = ${id} and is_listed)`,
    )
    await tx.query(sql`delete from categories where id = ${id}`)
    await recordActivity(tx, auditContext, { subjectType: 'category', subjectId: id, before: current, after: null })
  })
}

async function changeTree<T>(catalogue: ChangedCatalogue, change: (tx: Transaction) => Promise<T>): Promise<T> {
  return inCatalogue(catalogue, async (tx) => {
    await lockTree(tx)
    try {
      return await change(tx)
    } catch (error) {
      throw translateConstraint(error)
    }
  })
}

async function getMatching(tx: Transaction, id: string, ifMatch: IfMatch): Promise<Category> {
  const category = await getCategory(tx, id)
  const etag = categoryETag(category)
  if (ifMatch === null || ifMatch.has(etag)) return category
  throw new AppError('precondition_failed', 'The category has changed since the version in If-Match.', {
    headers: { etag: `"${etag}"` },
  })
}

async function assertParent(tx: Transaction, parentId: string | null): Promise<void> {
  if (parentId === null) return
  const { rows } = await tx.query(sql`select from categories where id = ${parentId}`)
  if (rows.length > 0) return
  throw new AppError('invalid_body', 'The body is not acceptable.', {
    errors: [{ pointer: '#/parent_id', detail: 'there is no such category' }],
  })
}

/** The first candidate that is free: see `category_below` in the migration. */
async function freeSlug(tx: Transaction, category: { id: string; name: string; parentId: string | null }): Promise<string> {
  const { id, name, parentId } = category
  const { rows } = await tx.query<{ slug: string }>(
    sql`select candidate as slug
     from generate_series(1, 4) as attempt
     cross join slug_candidate(${name}, (select slug from categories where id = ${parentId}), ${id}, attempt) as candidate
     where candidate is not null and not exists (select from categories where slug = candidate)
     order by attempt
     limit 1`,
  )
  return rows[0]?.slug ?? id
}

/** Moves a category to a place among its siblings, counted from 0; to the end if there are fewer. */
async function placeAmongSiblings(tx: Transaction, id: string, position: number): Promise<void> {
  await tx.query(
    sql`with other as (
       select sibling.id, row_number() over (order by sibling.position, sibling.name, sibling.id) - 1 as place
       from categories as sibling
       join categories as category on category.id = ${id}
       where sibling.parent_id is not distinct from category.parent_id and sibling.id <> category.id
     ), placed as (
       select id, place + case when place < ${position} then 0 else 1 end as place from other
       union all
       select ${id}, least(${position}, (select count(*) from other))
     )
     update categories
     set position = placed.place
     from placed
     where categories.id = placed.id and categories.position is distinct from placed.place`,
  )
}

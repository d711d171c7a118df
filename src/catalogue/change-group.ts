import { type Static, Type } from 'typebox'
import { type AuditContext, difference } from '../activity/record-activity.ts'
import { findFaultInAttributes } from '../attributes.ts'
import { BATCH_ROWS, inBatches } from '../db/in-batches.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { literal, noSql, sql } from '../db/sql.ts'
import { AppError, type FieldError, notFound } from '../errors.ts'
import type { IfMatch } from '../http/if-match.ts'
import { applyDueChanges } from './apply-due-changes.ts'
import { type ChangedCatalogue, changeCatalogue, inCatalogue } from './change-catalogue.ts'
import { patchProduct } from './change-product.ts'
import { EXAMPLE_GROUP } from './examples.ts'
import {
  commonMembers,
  contentOf,
  followGroup,
  type GroupContent,
  GroupContentSchema,
  groupETag,
  type Members,
  membersOf,
  overridesOf,
  patchMembers,
} from './group-content.ts'
import { findContradiction } from './normalize-product.ts'
import { type DetailsRow, type StoredProduct, selectDetails, toDetails } from './product-details.ts'
import type { GroupPatchBody } from './product-input.ts'
import { MAX_VARIANTS } from './product-rules.ts'
import { IS_EDITED, ProductSchema } from './products.ts'
import { storeProducts } from './store-products.ts'
import { findFaultInTranslations } from './translations.ts'

const { id, sku, name, options } = ProductSchema.properties
export const GroupSchema = Type.Object(
  {
    group: Type.String(),
    ...GroupContentSchema.properties,
    variants: Type.Array(
      Type.Object({
        ...{ id, sku, name, options },
        overrides: Type.Array(Type.String(), {
          description: 'The members of the group of which the variant has another value, such as `description` or `attributes.material`.',
        }),
      }),
      { description: 'The variants that are not archived, oldest first.' },
    ),
  },
  { title: 'ProductGroup', description: 'What the variants of a group share.', examples: [EXAMPLE_GROUP] },
)
export type ProductGroup = Static<typeof GroupSchema>

/** The most texts of variants in a read or a write. Indexing the words of a megabyte takes a second or two. */
const MAX_BYTES = 2_000_000
const MAX_TRIES = 5

/** A group with its entity tag, without quotes. */
export interface TaggedGroup {
  group: ProductGroup
  etag: string
}

/** A variant joined the group while its variants were being locked. */
class VariantJoined extends Error {
  override readonly name = 'VariantJoined'
}

/** Throws `not_found` for a group without variants, or `group_too_large`. */
export async function getGroup(db: Queryable, groupName: string): Promise<TaggedGroup> {
  await findVariantIds(db, groupName)
  const { members, variants } = await readGroup(db, groupName, { isLocked: false })
  if (variants.length === 0) throw notFound('group of variants')
  return toGroup(groupName, members, variants)
}

/**
 * Applies a JSON Merge Patch to what the variants of a group share, if `ifMatch` names its state. Each variant follows
 * in the members in which it had the value of the group. Throws `not_found`, `precondition_failed`, `group_too_large`
 * or `invalid_body`.
 */
export async function changeGroup(
  catalogue: ChangedCatalogue,
  groupName: string,
  ifMatch: IfMatch,
  patch: Static<typeof GroupPatchBody>,
  auditContext: AuditContext,
): Promise<TaggedGroup> {
  for (let tries = 1; ; tries++) {
    try {
      return await inCatalogue(catalogue, (tx) => changeOnce(tx, groupName, ifMatch, patch, auditContext))
    } catch (error) {
      if (!(error instanceof VariantJoined)) throw error
      if (tries === MAX_TRIES) throw new AppError('unavailable', 'Others are adding variants to the group. Retry in a moment.')
    }
  }
}

async function changeOnce(
  tx: Transaction,
  groupName: string,
  ifMatch: IfMatch,
  patch: Static<typeof GroupPatchBody>,
  auditContext: AuditContext,
): Promise<TaggedGroup> {
  const ids = await findVariantIds(tx, groupName)
  return changeCatalogue(tx, { ids, auditContext }, async () => {
    await applyDueChanges(tx, ids)
    const { members: before, isRecorded, variants } = await readGroup(tx, groupName, { isLocked: true })
    if (variants.some((variant) => !ids.includes(variant.id))) throw new VariantJoined()
    if (variants.length === 0) throw notFound('group of variants')
    assertMatching(before, ifMatch)
    const after = patchMembers(before, patch)
    assertNoFault(findFaultInContent(contentOf(after)), groupName)
    await tx.query(
      sql`insert into product_groups (name, content) values (${groupName}, ${JSON.stringify(contentOf(after))}::jsonb)
      on conflict (name) do update set content = excluded.content, updated_at = clock_timestamp()
      where product_groups.content <> excluded.content`,
    )
    const changed = variants.flatMap((variant) => {
      const followed = followGroup(membersOf(variant), before, after)
      if (Object.keys(followed).length === 0) return []
      const product = patchProduct(variant, followed as Parameters<typeof patchProduct>[1])
      assertNoFault(findContradiction(product), product.sku)
      return [{ variant, product, followed }]
    })
    if (JSON.stringify(changed.map(({ product }) => product)).length > MAX_BYTES) throw tooLarge()
    const rows = changed.map(({ variant, product }) => ({
      ...{ id: variant.id, isNew: false, product, slug: null, isInStock: variant.in_stock },
      category: { name: '', ids: null },
    }))
    const written = await storeProducts(tx, rows)
    const followedBy = new Map(changed.map(({ variant, followed }) => [variant.id, followed]))
    const result = toGroup(
      groupName,
      after,
      variants.map((variant) => ({ ...variant, ...followedBy.get(variant.id) }) as StoredProduct),
    )
    const differing = difference(contentOf(before), contentOf(after))
    const states = {
      before: { group: groupName, ...differing?.before },
      after: { group: groupName, ...differing?.after, updated: written.length },
    }
    return { result, written, activity: isRecorded && differing === null ? null : { subjectId: null, ...states } }
  })
}

/** Deletes what was shared by groups that no product has any more. Returns their number. It waits for no transaction. */
export function deleteEmptyGroups(pool: Pool): Promise<number> {
  return inBatches(
    pool,
    sql`delete from product_groups
    where name in (
      select name from product_groups
      where not exists (select from products where variant_group = product_groups.name)
      limit ${BATCH_ROWS} for update skip locked
    )`,
  )
}

function toGroup(groupName: string, members: Members, variants: readonly StoredProduct[]): TaggedGroup {
  const shown = variants.map((variant) => {
    const { id, sku, name, options } = variant
    return { id, sku, name, options, overrides: overridesOf(membersOf(variant), members) }
  })
  return { group: { group: groupName, ...contentOf(members), variants: shown }, etag: groupETag(members) }
}

/** The ids of the variants that are not archived. Throws `group_too_large`. */
async function findVariantIds(db: Queryable, groupName: string): Promise<string[]> {
  const { rows } = await db.query<{ id: string; bytes: number }>(
    sql`select id, pg_column_size(description) + pg_column_size(translations) as bytes
    from products as product
    where variant_group = ${groupName} and ${IS_EDITED}
    order by id
    limit ${literal(MAX_VARIANTS + 1)}`,
  )
  if (rows.length > MAX_VARIANTS || rows.reduce((sum, { bytes }) => sum + bytes, 0) > MAX_BYTES) throw tooLarge()
  return rows.map((row) => row.id)
}

function tooLarge(): AppError {
  const message = `The group has more than ${MAX_VARIANTS} variants, or their texts have more than 2 MB. Change its variants one by one.`
  return new AppError('group_too_large', message)
}

interface StoredGroup {
  members: Members
  /** Whether it was changed as a group before. */
  isRecorded: boolean
  variants: StoredProduct[]
}

async function readGroup(db: Queryable, groupName: string, { isLocked }: { isLocked: boolean }): Promise<StoredGroup> {
  const { rows: groups } = await db.query<{ content: GroupContent }>(
    sql`select content from product_groups where name = ${groupName} ${isLocked ? sql`for update` : noSql}`,
  )
  const { rows } = await db.query<DetailsRow>(
    sql`${selectDetails(sql`'[]'::json as categories`)} where product.variant_group = ${groupName} and ${IS_EDITED} order by product.id`,
  )
  const variants = rows.map(toDetails)
  const [recorded] = groups
  const members = recorded === undefined ? commonMembers(variants.map(membersOf)) : membersOf(recorded.content)
  return { members, isRecorded: recorded !== undefined, variants }
}

function findFaultInContent({ attributes, translations }: GroupContent): FieldError | null {
  const faultInAttributes = findFaultInAttributes(attributes)
  if (faultInAttributes !== null) return { pointer: '#/attributes', detail: faultInAttributes }
  const faultInTranslations = findFaultInTranslations(translations)
  return faultInTranslations === null ? null : { pointer: '#/translations', detail: faultInTranslations }
}

/** Throws `invalid_body` for the fault that the group or the variant `name` would have. */
function assertNoFault(fault: FieldError | null, name: string): void {
  if (fault === null) return
  const errors = [{ ...fault, detail: `${name}: ${fault.detail}` }]
  throw new AppError('invalid_body', 'The body is not acceptable.', { errors })
}

function assertMatching(members: Members, ifMatch: IfMatch): void {
  const etag = groupETag(members)
  if (ifMatch === null || ifMatch.has(etag)) return
  throw new AppError('precondition_failed', 'The group has changed since the version in If-Match.', { headers: { etag: `"${etag}"` } })
}

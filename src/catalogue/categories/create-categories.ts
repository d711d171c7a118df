import { randomUUIDv7 } from 'node:crypto'
import type { Transaction } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { ProductInput } from '../product-input.ts'
import { countRoom, lockTree, MAX_CATEGORIES } from './category.ts'

type Named = Pick<ProductInput, 'category' | 'categories'>

/** Why a product cannot have its categories, and the property that names them. */
export interface CategoryFault {
  fault: string
  at: string
}

/** How far a path exists: its last existing category (null for none), and the number of names up to it. */
interface Reached {
  id: string | null
  depth: number
}

/** The existing part of products' categories: how far each path exists, and the texts that are category names. */
interface Present {
  paths: ReadonlyMap<string, Reached>
  texts: ReadonlySet<string>
}

/**
 * Finds the category ids of products' paths and creates missing ones. Returns the ids by path (as JSON), and faults by
 * product index if there is no room. Categories of texts are counted, but the database creates them with the product.
 */
export async function findOrCreate(
  tx: Transaction,
  products: readonly Named[],
  texts: readonly string[],
): Promise<{ ids: ReadonlyMap<string, string>; faults: ReadonlyMap<number, CategoryFault> }> {
  const paths = new Map(products.flatMap(pathsOf).map((path) => [JSON.stringify(path), path]))
  let present = await findPresent(tx, [...paths.values()], texts)
  const faults = new Map<number, CategoryFault>()
  const ids = new Map<string, string>()
  if (texts.some((text) => !present.texts.has(text)) || paths.values().some((path) => !isPresent(present, path))) {
    await lockTree(tx)
    present = await findPresent(tx, [...paths.values()], texts)
    const room = await countRoom(tx)
    const planned = new PlannedCategories(present)
    for (const [index, product] of products.entries()) {
      const fault = planned.add(product, room)
      if (fault !== null) faults.set(index, fault)
    }
    for await (const [path, id] of createPaths(tx, planned.paths, present)) ids.set(path, id)
  }
  for (const [key, path] of paths) {
    const { id = null } = present.paths.get(key) ?? {}
    if (id !== null && isPresent(present, path)) ids.set(key, id)
  }
  return { ids, faults }
}

function isPresent({ paths }: Present, path: readonly string[]): boolean {
  return paths.get(JSON.stringify(path))?.depth === path.length
}

function pathsOf({ categories = [] }: Named): readonly string[][] {
  return categories.filter((each) => typeof each !== 'string')
}

/** Missing categories that products need. */
class PlannedCategories {
  /** Missing categories and ancestors, by their path as JSON. The database creates those of texts. */
  readonly #planned = new Map<string, { path: string[]; isText: boolean }>()
  readonly #names = new Set<string>()
  readonly #present: Present

  constructor(present: Present) {
    this.#present = present
  }

  get paths(): string[][] {
    return [...this.#planned.values()].flatMap(({ path, isText }) => (isText ? [] : [path]))
  }

  /** Plans a product's categories. If they would exceed `room`, returns the fault instead. */
  add(product: Named, room: number): CategoryFault | null {
    const { category, categories } = product
    const missing = new Map(pathsOf(product).flatMap((path) => this.#missingOf(path).map((each) => [JSON.stringify(each), each])))
    const isText = categories === undefined && category !== undefined && !this.#present.texts.has(category) && !this.#names.has(category)
    if (isText) missing.set(JSON.stringify([category]), [category])
    const added = new Set(missing.keys().filter((key) => !this.#planned.has(key)))
    if (added.size > 0 && this.#planned.size + added.size > room) {
      const isAdded = (path: readonly string[]) => this.#missingOf(path).some((each) => added.has(JSON.stringify(each)))
      const place = (categories ?? []).findIndex((each) => typeof each !== 'string' && isAdded(each))
      return {
        fault: `the store would have more than ${MAX_CATEGORIES.toLocaleString('en')} categories`,
        at: isText ? 'category' : `categories/${place}`,
      }
    }
    for (const [key, path] of missing) {
      this.#planned.set(key, { path, isText })
      this.#names.add(path.at(-1) ?? '')
    }
    return null
  }

  #missingOf(path: readonly string[]): string[][] {
    const { depth = 0 } = this.#present.paths.get(JSON.stringify(path)) ?? {}
    return path.slice(depth).map((_, index) => path.slice(0, depth + index + 1))
  }
}

async function findPresent(tx: Transaction, paths: readonly string[][], texts: readonly string[]): Promise<Present> {
  const { rows: named } =
    texts.length === 0
      ? { rows: [] }
      : await tx.query<{ name: string }>(sql`select distinct name from categories where name = any(${texts}::text[])`)
  const { rows: walked } =
    paths.length === 0
      ? { rows: [] }
      : await tx.query<{ path: string[]; id: string | null; depth: number }>(
          sql`with recursive walk as (
            select path, null::uuid as id, 0 as depth from ${asPaths(paths)}
            union all
            select walk.path, category.id, walk.depth + 1
            from walk
            join categories as category on category.name = walk.path[walk.depth + 1] and category.parent_id is not distinct from walk.id
          )
          select distinct on (path) path, id, depth from walk order by path, depth desc`,
        )
  return {
    paths: new Map(walked.map(({ path, ...reached }) => [JSON.stringify(path), reached])),
    texts: new Set(named.map(({ name }) => name)),
  }
}

/** Attempts at a slug: see `category_below` in the migration. */
const ATTEMPTS = [1, 2, 3, 4]

/**
 * Creates the paths' missing categories and yields each id with its path as JSON. Works by level, because a trigger
 * runs for each statement. The tree must be locked.
 */
async function* createPaths(tx: Transaction, paths: readonly string[][], present: Present): AsyncGenerator<[string, string]> {
  const ids = new Map<string, string>()
  for (const [key, { id, depth }] of present.paths) if (id !== null) ids.set(JSON.stringify(JSON.parse(key).slice(0, depth)), id)
  const deepest = Math.max(0, ...paths.map(({ length }) => length))
  for (let depth = 1; depth <= deepest; depth++) {
    const level = paths.filter(({ length }) => length === depth)
    const parents = level.map((path) => ids.get(JSON.stringify(path.slice(0, -1))) ?? null)
    const names = level.map((path) => path.at(-1) ?? '')
    for (const [index, id] of (await createLevel(tx, parents, names)).entries()) {
      const key = JSON.stringify(level[index])
      ids.set(key, id)
      yield [key, id]
    }
  }
}

async function createLevel(tx: Transaction, parents: readonly (string | null)[], names: readonly string[]): Promise<string[]> {
  if (names.length === 0) return []
  const wanted = sql`unnest(${names.map(() => randomUUIDv7())}::uuid[], ${parents}::uuid[], ${names}::text[]) as wanted (id, parent_id, name)`
  for (const attempt of ATTEMPTS) {
    const { rowCount } = await tx.query(
      sql`insert into categories (id, parent_id, name, slug)
       select wanted.id, wanted.parent_id, wanted.name, candidate
       from ${wanted}
       left join categories as parent on parent.id = wanted.parent_id
       cross join slug_candidate(wanted.name, parent.slug, wanted.id, ${attempt}) as candidate
       where candidate is not null
         and not exists (
           select from categories as other where other.name = wanted.name and other.parent_id is not distinct from wanted.parent_id
         )
       order by candidate collate "C"
       on conflict do nothing`,
    )
    if (attempt === 1 && rowCount === names.length) break
  }
  // The previous release does not lock the tree, so this also finds roots that it created meanwhile.
  const { rows } = await tx.query<{ id: string }>(
    sql`select category.id
     from unnest(${parents}::uuid[], ${names}::text[]) with ordinality as wanted (parent_id, name, place)
     join categories as category on category.name = wanted.name and category.parent_id is not distinct from wanted.parent_id
     order by wanted.place`,
  )
  return rows.map(({ id }) => id)
}

/** Rows with a column `path`. Uses JSON, because paths differ in length. */
function asPaths(paths: readonly string[][]): Sql {
  return sql`(
    select array(select jsonb_array_elements_text(element)) as path from jsonb_array_elements(${JSON.stringify(paths)}::jsonb) as element
  ) as listed`
}

import { OperatorError } from '../errors.ts'
import { copyRows } from './copy-rows.ts'
import type { Queryable, Transaction } from './pool.ts'
import { commaList, identifier, literal, type Sql, sql } from './sql.ts'

export interface CopyOptions {
  /** The database to copy. Its tables stay locked against writes until the caller rolls the transaction back. */
  source: Queryable
  target: Transaction
  /** Tables whose target rows stay: `schema.table`, or a name in the connection's schema. */
  kept: readonly string[]
  /** Tables without rows in a new store. The copy replaces all rows, so it is refused if one of these has rows. */
  emptyInNewStore: readonly string[]
  onStep: (text: string) => void
}

interface Table {
  name: string
  schema: string
  table: string
  columns: string[]
}

const BATCH_SIZE = 200

/**
 * Copies all rows, without triggers and unlogged tables. Throws OperatorError if the schemas differ or the target has
 * rows.
 */
export async function copyDatabase({ source, target, kept, emptyInNewStore, onStep }: CopyOptions): Promise<{
  tables: number
  rows: number
}> {
  const [from, to] = [await listTables(source), await listTables(target)]
  assertSameTables(from, to)
  // The tables are locked before the first query, because that query takes the transaction's snapshot.
  await source.query('begin isolation level repeatable read; set local idle_in_transaction_session_timeout = 0')
  try {
    await source.query(sql`lock table ${commaList(from.map(nameOf))} in share mode`)
    await target.query(sql`lock table ${commaList(to.map(nameOf))} in access exclusive mode`)
    await assertEmpty(target, emptyInNewStore)
    const copied = to.filter(({ name }) => !kept.includes(name))
    const foreignKeys = await listForeignKeys(target, copied)
    await target.query(foreignKeys.drop)
    const rows = await replaceRows(source, from, target, copied, onStep)
    await copySequences(source, target)
    onStep('checking references')
    await target.query(foreignKeys.add)
    onStep('collecting statistics')
    for (const table of copied) await target.query(sql`analyze ${nameOf(table)}`)
    return { tables: copied.length, rows }
  } catch (error) {
    await source.query('rollback').catch(() => {})
    throw error
  }
}

async function replaceRows(
  source: Queryable,
  from: readonly Table[],
  target: Transaction,
  copied: readonly Table[],
  onStep: (text: string) => void,
): Promise<number> {
  await target.query(sql`truncate ${commaList(copied.map(nameOf))}`)
  for (const table of copied) await target.query(sql`alter table ${nameOf(table)} disable trigger user`)
  let rows = 0
  for (const table of copied) {
    const sourceTable = from.find(({ name }) => name === table.name) ?? table
    rows += await copyTable(source, sourceTable, target, table, (count) => onStep(`${table.name}: ${count} rows`))
  }
  for (const table of copied) await target.query(sql`alter table ${nameOf(table)} enable trigger user`)
  return rows
}

function nameOf({ schema, table }: Pick<Table, 'schema' | 'table'>): Sql {
  return sql`${identifier(schema)}.${identifier(table)}`
}

async function listTables(db: Queryable): Promise<Table[]> {
  const { rows } = await db.query<Table>(sql`
    select
      case when nspname = current_schema() then '' else nspname || '.' end || relname as name,
      nspname as schema,
      relname as table,
      array_agg(attname::text order by attname) as columns
    from pg_class as class
    join pg_namespace as namespace on namespace.oid = relnamespace
    join pg_attribute as attribute on attrelid = class.oid and attnum > 0 and not attisdropped and attgenerated = ''
    where nspname = current_schema()
      and relkind in ('r', 'p') and not relispartition and relpersistence = 'p'
    group by nspname, relname
    order by name`)
  return rows
}

function assertSameTables(from: readonly Table[], to: readonly Table[]): void {
  const describe = (tables: readonly Table[]) =>
    new Set(tables.flatMap(({ name, columns }) => columns.map((column) => `${name}.${column}`)))
  const [first] = describe(from).symmetricDifference(describe(to))
  if (first === undefined) return
  throw new OperatorError(`the two databases have different schemas (${first}): run storefront migrate for each with the same version`)
}

/** Throws TargetNotEmpty unless the tables are empty or missing. */
export async function assertEmpty(db: Queryable, tables: readonly string[]): Promise<void> {
  for (const table of tables) {
    const { rows } = await db.query<{ exists: boolean }>(sql`select to_regclass(${table}) is not null as exists`)
    if (rows[0]?.exists && (await db.query(sql`select from ${identifier(table)} limit 1`)).rowCount !== 0) throw new TargetNotEmpty(table)
  }
}

export class TargetNotEmpty extends Error {
  override readonly name = 'TargetNotEmpty'
  readonly table: string

  constructor(table: string) {
    super(`the table ${table} has rows`)
    this.table = table
  }
}

/** Tables can be filled in any order without their foreign keys. */
async function listForeignKeys(db: Queryable, tables: readonly Table[]): Promise<{ drop: string; add: string }> {
  const { rows } = await db.query<{ drop: string | null; add: string | null }>(sql`
    select
      string_agg(format('alter table %I.%I drop constraint %I', nspname, relname, conname), '; ') as drop,
      string_agg(format('alter table %I.%I add constraint %I %s', nspname, relname, conname, pg_get_constraintdef(foreign_key.oid)), '; ') as add
    from pg_constraint as foreign_key
    join pg_class as class on class.oid = conrelid
    join pg_namespace as namespace on namespace.oid = relnamespace
    where contype = 'f' and conparentid = 0 and nspname = any(${[...new Set(tables.map(({ schema }) => schema))]})`)
  return { drop: rows[0]?.drop ?? '', add: rows[0]?.add ?? '' }
}

async function copyTable(source: Queryable, from: Table, target: Transaction, to: Table, onRows: (count: number) => void): Promise<number> {
  const columns = to.columns.map(identifier)
  const texts = columns.map((column) => sql`${column}::text`)
  await source.query(sql`declare moved no scroll cursor for select ${commaList(texts)} from ${nameOf(from)}`)
  const statement = sql`copy ${nameOf(to)} (${commaList(columns)}) from stdin`.text
  const fetch = sql`fetch ${literal(BATCH_SIZE)} from moved`.text
  let count = 0
  while (true) {
    const { rows } = await source.query<(string | null)[]>({ text: fetch, rowMode: 'array' })
    if (rows.length === 0) break
    await copyRows(target, statement, rows)
    count += rows.length
    onRows(count)
  }
  await source.query('close moved')
  return count
}

async function copySequences(source: Queryable, target: Queryable): Promise<void> {
  const list = sql`
    select case when schemaname = current_schema() then null else schemaname::text end as schema, sequencename as name
    from pg_sequences
    where schemaname = current_schema()`
  const { rows } = await source.query<{ schema: string | null; name: string }>(list)
  for (const { schema, name } of rows) {
    const sequence = schema === null ? identifier(name) : sql`${identifier(schema)}.${identifier(name)}`
    const { rows } = await source.query<{ value: string; is_called: boolean }>(
      sql`select last_value::text as value, is_called from ${sequence}`,
    )
    const [{ value = '1', is_called: isCalled = false } = {}] = rows
    await target.query(sql`select setval(${sequence.text}::text::regclass, ${value}::bigint, ${isCalled})`)
  }
}

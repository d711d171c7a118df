import { commaList, identifier, type Sql, sql } from '../db/sql.ts'

/** A column of the lake's files, or a field of its lists. `T`: what the value is made of. */
export interface LakeColumn<T> {
  /**
   * Iceberg's id. It stays with its column permanently, because readers find columns by it; a column of the same name has the same id in
   * every table. A new column gets `NEXT_FIELD_ID`.
   */
  id: number
  /** DuckDB's. */
  type: Sql
  value(source: T): unknown
  /** The first files have it. In their rows every other column and field is missing, or null after a merge. */
  isFirst?: true
  /** Gives the view `orders` this column: `true` from the newest event. */
  inOrders?: true | { id: number; name: string; value: Sql }
}

export type LakeColumns<T> = Readonly<Record<string, LakeColumn<T>>>

export const VARCHAR = sql`VARCHAR`
export const BIGINT = sql`BIGINT`
export const INTEGER = sql`INTEGER`
export const TIMESTAMPTZ = sql`TIMESTAMPTZ`
export const BOOLEAN = sql`BOOLEAN`

export function typesOf<K extends string>(columns: Readonly<Record<K, LakeColumn<never>>>): Readonly<Record<K, Sql>> {
  return Object.fromEntries(Object.entries<LakeColumn<never>>(columns).map(([name, { type }]) => [name, type])) as Record<K, Sql>
}

export function firstOf(columns: LakeColumns<never>): string[] {
  return Object.keys(columns).filter((name) => columns[name]?.isFirst)
}

export function rowMaker<T, K extends string>(columns: Readonly<Record<K, LakeColumn<T>>>): (source: T) => Record<K, unknown> {
  const values = Object.entries<LakeColumn<T>>(columns)
  return (source) => {
    const row: Record<string, unknown> = {}
    for (const [name, column] of values) row[name] = column.value(source)
    return row as Record<K, unknown>
  }
}

/** A view of the newest state: its columns by DuckDB type, and its rows. */
export interface TableView {
  description: string
  columns: Readonly<Record<string, Sql>>
  select: Sql
  /** The rest is of its Iceberg table: see `DerivedTable`. */
  order: Sql
  id: string
  key: string
  monthOf?: string
}

/** A lone surrogate, which has no UTF-8, would make every flush fail. The checks of events do not look at these texts. */
export function toText(value: unknown): string | null {
  return typeof value === 'string' ? value.toWellFormed() : null
}

/** Names with their types, for DuckDB's `create table` and `STRUCT`. */
export function typedList(columns: Readonly<Record<string, Sql>>): Sql {
  return commaList(Object.entries(columns).map(([name, type]) => sql`${identifier(name)} ${type}`))
}

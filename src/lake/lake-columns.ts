import { commaList, identifier, type Sql, sql } from '../db/sql.ts'

/** A column in the lake's files, or a field of one of their lists. `T` is the source of its value. */
export interface LakeColumn<T> {
  /** Iceberg's id never changes. Columns of one name share it in all tables. A new column gets `NEXT_FIELD_ID`. */
  id: number
  type: Sql
  value(source: T): unknown
  /** The first files have only these columns. In their rows other values are missing, or null after a merge. */
  isFirst?: true
  /** The column of the view `orders`. `true` stands for the value in the newest event. */
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

export interface TableView {
  description: string
  columns: Readonly<Record<string, Sql>>
  select: Sql
  /** The following members are for the Iceberg table: see `DerivedTable`. */
  order: Sql
  id: string
  key: string
  monthOf?: string
}

/** A lone surrogate has no UTF-8 and would make every flush fail. The event checks ignore these texts. */
export function toText(value: unknown): string | null {
  return typeof value === 'string' ? value.toWellFormed() : null
}

export function typedList(columns: Readonly<Record<string, Sql>>): Sql {
  return commaList(Object.entries(columns).map(([name, type]) => sql`${identifier(name)} ${type}`))
}

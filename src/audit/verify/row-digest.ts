import { commaList, identifier, type Sql, sql } from '../../db/sql.ts'
import { CATALOGUE_EVENT_COLUMNS } from '../../lake/catalogue-row.ts'
import type { LakeColumn } from '../../lake/lake-columns.ts'
import type { DatasetName } from '../../lake/lake-names.ts'
import { FIRST_COLUMNS, FIRST_ITEM_FIELDS, ITEM_FIELDS, LAKE_COLUMNS } from '../../lake/lake-row.ts'

// Columns that describe the event's place in the lake, not the event.
const OF_THE_LAKE = ['sequence', 'ingested_at']
// Removed when the address of a deleted account is erased: docs/decisions/customers.md#erasure.
const ERASED_IN_EVENTS = ['shipping_country', 'billing_country']

const fieldsOfItems = (fields: readonly string[]) =>
  sql`list_transform(items, lambda item: row(${commaList(fields.map((field) => sql`item.${identifier(field)}`))}))`
const isOfEvent = (name: string) => !OF_THE_LAKE.includes(name)
const laterColumns = Object.keys(LAKE_COLUMNS).filter((name) => !FIRST_COLUMNS.includes(name))
const laterFields = Object.keys(ITEM_FIELDS).filter((name) => !FIRST_ITEM_FIELDS.includes(name))

// Each later column has a separate digest, because older files lack it.
const DIGESTS: readonly Sql[] = [
  sql`hash(row(${commaList(
    FIRST_COLUMNS.filter(isOfEvent).map((name) => (name === 'items' ? fieldsOfItems(FIRST_ITEM_FIELDS) : identifier(name))),
  )}))`,
  ...laterColumns.map(digestIfAny),
  ...laterFields.map((name) => {
    const field = sql`item.${identifier(name)}`
    return sql`case when list_bool_or(list_transform(items, lambda item: ${field} is not null)) then hash(${fieldsOfItems([name])}) end`
  }),
]

/** The last Iceberg id of the first release that writes files of the catalogue. */
const FIRST_CATALOGUE_ID = 70
const catalogueColumns = Object.entries<LakeColumn<never>>(CATALOGUE_EVENT_COLUMNS).filter(([name]) => isOfEvent(name))
const catalogueNames = (isFirst: boolean) =>
  catalogueColumns.filter(([, { id }]) => id <= FIRST_CATALOGUE_ID === isFirst).map(([name]) => name)
const CATALOGUE_DIGESTS = [sql`hash(row(${commaList(catalogueNames(true).map(identifier))}))`, ...catalogueNames(false).map(digestIfAny)]

/** `UBIGINT[]` of everything that a lake row has from its event. `ALTERED_IN_LAKE` compares it. */
export const ROW_DIGESTS: Readonly<Record<DatasetName, Sql>> = {
  orders: sql`[${commaList(DIGESTS)}]`,
  catalogue: sql`[${commaList(CATALOGUE_DIGESTS)}]`,
}

function digestIfAny(name: string): Sql {
  return sql`case when ${identifier(name)} is not null then hash(${identifier(name)}) end`
}

/** A null in a later column may come from an older file. The catalogue has fewer columns. */
const IS_OTHER_ROW = DIGESTS.map((_, index) => {
  const [copied, original] = [sql`copy.digests[${index + 1}]`, sql`original.digests[${index + 1}]`]
  if (index === 0 || ERASED_IN_EVENTS.includes(laterColumns[index - 1] ?? '')) return sql`coalesce(${copied} <> ${original}, false)`
  return sql`(${copied} is not null and ${copied} is distinct from ${original})`
}).reduce((all, one) => sql`${all} or ${one}`)

/**
 * The lake rows that differ from their event, or that have the sequence of another event. `place` is the `rowid` of the
 * row.
 */
export const ALTERED_IN_LAKE = sql`
  select copy.rowid as place, copy.event_id
  from lake_events as copy join topic_events as original using (event_id)
  where ${IS_OTHER_ROW}
  union
  select copy.rowid, copy.event_id
  from lake_events as copy join topic_events as original using (sequence)
  where copy.event_id <> original.event_id`

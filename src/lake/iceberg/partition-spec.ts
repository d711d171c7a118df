import { fieldIdOf } from './field-ids.ts'

// See https://iceberg.apache.org/spec/#partitioning.

export interface PartitionSpec {
  'spec-id': number
  fields: { 'source-id': number; 'field-id': number; name: string; transform: string }[]
}

export const MONTH_FIELD_ID = 1_000
const NO_PARTITIONS: PartitionSpec = { 'spec-id': 0, fields: [] }

/**
 * The partition specs of a table; the last one is in use. `monthOf` is the time column whose month splits the files.
 */
export function partitionSpecsOf({ monthOf }: { monthOf?: string }): [PartitionSpec, ...PartitionSpec[]] {
  if (monthOf === undefined) return [NO_PARTITIONS]
  const month = { 'source-id': fieldIdOf(monthOf), 'field-id': MONTH_FIELD_ID, name: 'month', transform: 'month' }
  return [NO_PARTITIONS, { 'spec-id': 1, fields: [month] }]
}

export function currentSpecOf(table: { monthOf?: string }): PartitionSpec {
  return partitionSpecsOf(table).at(-1) ?? NO_PARTITIONS
}

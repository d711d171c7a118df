import { randomBytes } from 'node:crypto'

/** Folders of events at the lake's root. */
export type DatasetName = 'orders' | 'catalogue'
export const DATASET_NAMES: readonly DatasetName[] = ['orders', 'catalogue']

/** Begins the names of a dataset's files. */
export function prefixOf(dataset: DatasetName): string {
  return `${dataset}/ingest_date=`
}

/**
 * A new name for a file of rows of one day (UTC, `YYYY-MM-DD`), from the lake's root. No two files ever have the same
 * name. The sequences in it are for people: which files count, and what they have, is in the newest snapshot.
 */
export function newName(dataset: DatasetName, ingestDate: string, first: number, last: number): string {
  return `${prefixOf(dataset)}${ingestDate}/${padSequence(first)}-${padSequence(last)}-${randomBytes(8).toString('hex')}.parquet`
}

export function padSequence(sequence: number): string {
  return String(sequence).padStart(16, '0')
}

/** The day in the name of a file of events; empty for other names. */
export function ingestDateOf(name: string): string {
  return /^\w+\/ingest_date=(\d{4}-\d{2}-\d{2})\//.exec(name)?.[1] ?? ''
}

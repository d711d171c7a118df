import { randomBytes } from 'node:crypto'

export type DatasetName = 'orders' | 'catalogue'
export const DATASET_NAMES: readonly DatasetName[] = ['orders', 'catalogue']

export function prefixOf(dataset: DatasetName): string {
  return `${dataset}/ingest_date=`
}

/**
 * A unique file name. The sequences in it are for people, because only the newest snapshot decides which files count.
 */
export function newName(dataset: DatasetName, ingestDate: string, first: number, last: number): string {
  return `${prefixOf(dataset)}${ingestDate}/${padSequence(first)}-${padSequence(last)}-${randomBytes(8).toString('hex')}.parquet`
}

export function padSequence(sequence: number): string {
  return String(sequence).padStart(16, '0')
}

export function ingestDateOf(name: string): string {
  return /^\w+\/ingest_date=(\d{4}-\d{2}-\d{2})\//.exec(name)?.[1] ?? ''
}

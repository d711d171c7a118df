import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DataFolder, syncFolder } from './data-folder.ts'

// In the cluster's folder: one rename puts both in place, so no crash leaves one without the other.
const MARK = 'storefront-restored'

/** Marks a cluster as restored, before it is put in place. On disk when this returns. */
export function markRestored(cluster: string): void {
  writeFileSync(join(cluster, MARK), '', { mode: 0o600, flush: true })
  syncFolder(cluster)
}

/** Whether a backup was put in place and no incarnation has begun since: numbers of lost orders would be reused. */
export function isRestoreUnfinished({ cluster }: DataFolder): boolean {
  return existsSync(join(cluster, MARK))
}

/** Call it when the incarnation is committed. */
export function finishRestore({ cluster }: DataFolder): void {
  rmSync(join(cluster, MARK), { force: true })
  syncFolder(cluster)
}

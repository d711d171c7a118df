import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DataFolder, syncFolder } from './data-folder.ts'

// In the cluster's own folder: it takes its place by the same rename, so no crash leaves one without the other.
const MARK = 'storefront-restored'

/** Marks a cluster that is to be put in place as restored: on disk when this returns. */
export function markRestored(cluster: string): void {
  writeFileSync(join(cluster, MARK), '', { mode: 0o600, flush: true })
  syncFolder(cluster)
}

/** Whether a backup was put in place and no incarnation has begun since: the numbers of orders that were lost would be used again. */
export function isRestoreUnfinished({ cluster }: DataFolder): boolean {
  return existsSync(join(cluster, MARK))
}

/** To be called when the incarnation is committed. */
export function finishRestore({ cluster }: DataFolder): void {
  rmSync(join(cluster, MARK), { force: true })
  syncFolder(cluster)
}

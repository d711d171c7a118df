import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DataFolder, syncFolder } from './data-folder.ts'
import { PostgresUnavailable } from './postgres-launcher.ts'

// The mark is in the cluster's folder, so one rename puts both in place.
const MARK = 'storefront-restored'

// The values of ControlFileData.state in PostgreSQL's src/include/catalog/pg_control.h after a recovery from a backup
// was stopped or killed.
const STATE_OFFSET = 16
const [SHUT_DOWN_IN_RECOVERY, IN_ARCHIVE_RECOVERY] = [2, 5]

export function markRestored(cluster: string): void {
  writeFileSync(join(cluster, MARK), '', { mode: 0o600, flush: true })
  syncFolder(cluster)
}

/** Whether a restore is unfinished. Until then, new orders would get the numbers of lost ones. */
export function isRestoreUnfinished({ cluster }: DataFolder): boolean {
  return existsSync(join(cluster, MARK))
}

/** Call it when the incarnation is committed. */
export function finishRestore({ cluster }: DataFolder): void {
  rmSync(join(cluster, MARK), { force: true })
  syncFolder(cluster)
}

/** PostgreSQL has renamed the label that marks the backup's end. Call it while no server runs. */
export function resumeRecovery(folder: DataFolder): void {
  const { cluster } = folder
  const [label, usedLabel] = [join(cluster, 'backup_label'), join(cluster, 'backup_label.old')]
  if (!isRestoreUnfinished(folder) || existsSync(label) || !existsSync(usedLabel)) return
  const state = readFileSync(join(cluster, 'global', 'pg_control')).readUInt32LE(STATE_OFFSET)
  if (state !== SHUT_DOWN_IN_RECOVERY && state !== IN_ARCHIVE_RECOVERY) return
  const [, segment = ''] = /^START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)/.exec(readFileSync(usedLabel, 'utf8')) ?? []
  // A server stopped during recovery may have removed segments that it has replayed.
  if (segment === '' || !existsSync(join(cluster, 'pg_wal', segment)))
    throw new PostgresUnavailable(`a restore into ${folder.path} was interrupted and cannot be continued: run storefront restore again`)
  renameSync(usedLabel, label)
  syncFolder(cluster)
}

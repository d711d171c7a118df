import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DataFolder, dataFolder } from '../src/db/embedded/data-folder.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { makeTestFolder } from './test-folder.ts'

/** Copies a cluster whose server is stopped, for a physical standby. */
export function copyForStandby(cleanup: Cleanup, primary: DataFolder): DataFolder {
  const standby = dataFolder(makeTestFolder(cleanup, 'storefront-standby-'))
  mkdirSync(standby.path, { recursive: true })
  cpSync(primary.path, standby.path, { recursive: true })
  // The primary's slots do not belong to the standby: pg_basebackup leaves them out, too.
  for (const slot of readdirSync(join(standby.cluster, 'pg_replslot')))
    rmSync(join(standby.cluster, 'pg_replslot', slot), { recursive: true })
  return standby
}

/**
 * Starts a copy as a standby that streams through the primary's physical slot `standby`, and copies its logical slots
 * if told to.
 */
export async function startStandby(
  cleanup: Cleanup,
  standby: DataFolder,
  primaryUrl: string,
  { isSlotSynced }: { isSlotSynced: boolean },
): Promise<EmbeddedPostgres> {
  writeFileSync(join(standby.cluster, 'standby.signal'), '')
  const settings = {
    fsync: 'off',
    primary_conninfo: toConnInfo(primaryUrl),
    primary_slot_name: 'standby',
    hot_standby_feedback: 'on',
    sync_replication_slots: isSlotSynced ? 'on' : 'off',
    wal_receiver_status_interval: '1s',
  }
  const server = await startEmbeddedPostgres(standby, { settings })
  onCleanup(cleanup, () => server.stop())
  return server
}

function toConnInfo(url: string): string {
  const { hostname, port, username, password } = new URL(url)
  return `host=${hostname} port=${port} user=${username} password=${password} dbname=storefront`
}

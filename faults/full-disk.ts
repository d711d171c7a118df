import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import type { EmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { onCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { fillDisk, mountTmpfs } from '../test/tmpfs.ts'
import { startCluster, UNSYNCED } from './database.ts'
import type { Fault } from './fault.ts'
import { Skipped } from './lake.ts'
import { Round } from './round.ts'

const DISK_MEGABYTES = 300
const SETTINGS = { ...UNSYNCED, min_wal_size: '32MB', max_wal_size: '64MB' }

const disks = new WeakMap<Round, { path: string; server: EmbeddedPostgres }>()

/**
 * First tables cannot grow, which fails statements. Then the log cannot grow, which ends PostgreSQL until there is
 * space.
 */
export const FULL_DISK_FAULT: Fault = {
  name: 'postgres-disk-full',
  ownsPostgres: true,
  title: 'disk full under tables and WAL (tmpfs), PostgreSQL down until there is room',
  mayRepeatMails: true,
  async open(cleanup, random) {
    const path = mkdtempSync(join(tmpdir(), 'storefront-disk-'))
    onCleanup(cleanup, () => rmSync(path, { recursive: true, force: true }))
    const reason = mountTmpfs(cleanup, path, DISK_MEGABYTES)
    if (reason !== null) throw new Skipped(reason)
    const server = await startCluster(dataFolder(path), { settings: SETTINGS, isSupervised: true })
    onCleanup(cleanup, () => server.stop())
    const round = await Round.open(cleanup, random, server.url)
    disks.set(round, { path, server })
    return round
  },
  async run(round, orders) {
    const { path, server } = disks.get(round) ?? { path: '', server: null }
    if (server === null) throw new Error('this round has no disk of its own')
    await round.start('stream,email,lake')
    const trading = round.shop.trade(orders)
    await pause(round.random() * 300)
    const ballast = fillDisk(path)
    await eventually(
      async () => {
        await round.pool.query(`select pg_logical_emit_message(false, 'ballast', repeat('x', 1000000))`).catch(() => {})
        return server.failure !== null
      },
      { what: 'a log that has no room', timeoutMs: 120_000 },
    )
    await pause(round.random() * 2_000)
    rmSync(ballast)
    await eventually(async () => server.failure === null, { what: 'PostgreSQL to come back', timeoutMs: 120_000 })
    await trading
    await round.shop.trade(3)
  },
}

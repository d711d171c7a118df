import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onCleanup } from '../test/cleanup.ts'
import { NO_NATS, startNatsServer } from '../test/nats-server.ts'
import { Broker } from './broker.ts'
import { clusterOf, openWithCluster, startCluster, UNSYNCED } from './database.ts'
import type { Fault } from './fault.ts'
import { Skipped } from './lake.ts'
import type { Round } from './round.ts'

/** Stops the database, changes its files, and restarts it at the same address. */
async function whileStopped(round: Round, work: (cluster: string) => void): Promise<void> {
  const cluster = clusterOf(round)
  await cluster.server.stop()
  work(cluster.folder.cluster)
  cluster.server = await startCluster(cluster.folder, { settings: UNSYNCED })
  cluster.address.moveTo(cluster.server.url)
}

/** Sells, copies the database's files, continues selling, restores the copy, and sells again. */
async function putBack(round: Round, orders: number): Promise<void> {
  const copies = mkdtempSync(join(tmpdir(), 'storefront-copy-'))
  onCleanup(round.cleanup, () => rmSync(copies, { recursive: true, force: true }))
  const copy = join(copies, 'postgres')
  const first = await round.start('stream,email,lake')
  await round.shop.trade(Math.ceil(orders / 2))
  await round.drain()
  await first.kill()
  await whileStopped(round, (cluster) => cpSync(cluster, copy, { recursive: true }))
  const forget = round.shop.remember()

  const second = await round.start('stream,email,lake')
  await round.shop.trade(Math.ceil(orders / 4))
  await round.drain()
  await second.kill()
  await whileStopped(round, (cluster) => {
    rmSync(cluster, { recursive: true })
    cpSync(copy, cluster, { recursive: true })
  })
  forget()

  await round.start('stream,email,lake')
  await round.shop.trade(Math.ceil(orders / 4))
  await round.reconcile()
  await round.shop.trade(3)
}

/** A database that is restored to an earlier state while topic and lake are not. */
export const RESTORE_FAULTS: Fault[] = [
  {
    name: 'restore-files',
    ownsPostgres: true,
    title: "the database's files put back to an earlier state, storefront replay",
    mayRepeatMails: true,
    open: (cleanup, random) => openWithCluster(cleanup, random, UNSYNCED),
    run: putBack,
  },
  {
    name: 'nats-restore-files',
    ownsPostgres: true,
    title: "NATS: the database's files put back to an earlier state, storefront replay",
    mayRepeatMails: true,
    async open(cleanup, random) {
      if (NO_NATS) throw new Skipped(NO_NATS)
      const server = await startNatsServer(cleanup)
      return openWithCluster(cleanup, random, UNSYNCED, await Broker.open(cleanup, [server.url], 1))
    },
    run: putBack,
  },
]

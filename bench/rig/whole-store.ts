import { findLakeEnd } from '../../src/lake/list-files.ts'
import { LocalLakeStore } from '../../src/lake/local-store.ts'
import { EPOCH_SEQUENCES } from '../../src/topic/topic.ts'
import type { Cleanup } from '../../test/cleanup.ts'
import type { SinkQuestion, SinkReport } from '../mails/sink.ts'
import { startChild } from './child.ts'
import { processorSeconds } from './processor-time.ts'
import { type Account, addProducts, makeBaskets, placingConnections, registerCustomers } from './shop.ts'
import { openStore, type Running, type Store } from './store.ts'

/** A store with all roles in one process, customers, products, and a mail server in a separate process. */
export interface WholeStore {
  store: Store
  running: Running
  accounts: Account[]
  products: string[]
  sink(question?: SinkQuestion): Promise<SinkReport>
  /**
   * The orders placed, mails accepted and events in the lake since the store was created, and the processor time of
   * store and PostgreSQL.
   */
  progress(): Promise<Progress>
}

export interface Progress {
  orders: number
  mails: number
  inLake: number
  processorSeconds: number
}

export const CLIENTS = 64
export const LINES = 3

/** Starts a store. `beforeStart` runs once PostgreSQL runs, before the store's own process starts. */
export async function startWholeStore(
  cleanup: Cleanup,
  beforeStart: (store: Store) => Promise<void> = async () => {},
): Promise<WholeStore> {
  const sink = startChild(cleanup, 'mails/sink.ts')
  const { port } = await sink.ask<SinkReport>({})
  const store = await openStore(cleanup, { env: { SMTP_URL: `smtp://127.0.0.1:${port}` } })
  await beforeStart(store)
  const running = await store.start('all')
  const report = (question: SinkQuestion = {}) => sink.ask<SinkReport>(question)
  return {
    store,
    running,
    accounts: await registerCustomers(running.port, CLIENTS),
    products: await addProducts(store.pool),
    sink: report,
    async progress() {
      const { rows } = await store.pool.query<{ orders: number }>(
        'select case when is_called then last_value - first.value + 1 else 0 end::integer as orders from order_numbers, (select seqstart as value from pg_sequence where seqrelid = $1::regclass) as first',
        ['order_numbers'],
      )
      return {
        orders: rows[0]?.orders ?? 0,
        mails: (await report()).mails,
        inLake: await newestInLake(store.lake),
        processorSeconds: processorSeconds([running.pid, store.postgresPid]),
      }
    },
  }
}

/** Makes connections that place orders of three lines. */
export function placing({ accounts, products }: WholeStore, clients = CLIENTS) {
  return placingConnections(accounts, makeBaskets(products, { lines: LINES, clients }))
}

/** The newest sequence in the lake, without its epoch. */
export async function newestInLake(lake: string): Promise<number> {
  return (await findLakeEnd(new LocalLakeStore(lake))) % EPOCH_SEQUENCES
}

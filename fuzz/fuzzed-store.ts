import { openLake } from '../src/app/open-lake.ts'
import { orderSlotOf } from '../src/app/prepare-database.ts'
import { verify } from '../src/audit/verify/verify.ts'
import { ROLES } from '../src/config.ts'
import { dataFolder } from '../src/db/embedded/data-folder.ts'
import { ORDERS } from '../src/topic/partitions.ts'
import { createPostgresTopic } from '../src/topic/postgres/postgres-topic.ts'
import type { Cleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { type StoreOverrides, startStore, type TestStore } from '../test/store.ts'
import { silent } from '../test/stream-harness.ts'
import { auditStock, recordStock } from './stock-audit.ts'

/** The unmodified product, with all roles in one process, on a port of 127.0.0.1. */
export interface FuzzedStore extends TestStore {
  mailFolder: string
  /**
   * Returns the findings of `storefront verify` and of the fuzzer's own check of the tables. Empty if nothing is wrong.
   */
  audit(): Promise<string[]>
}

const DELIVERY_MS = 120_000

export async function startFuzzedStore(t: Cleanup, overrides: StoreOverrides = {}): Promise<FuzzedStore> {
  const store = await startStore(t, {
    roles: ROLES,
    host: '127.0.0.1',
    lakeFlushSeconds: 1,
    mailMaxPerHour: null,
    shopProductUrl: 'https://shop.example/{slug}',
    ...overrides,
  })
  await recordStock(store.pool)
  return {
    ...store,
    mailFolder: dataFolder(store.config.dataDir).mail,
    audit: async () => [...(await auditPipeline(store)), ...(await auditStock(store.pool))],
  }
}

async function auditPipeline({ pool, url, addresses, config }: TestStore): Promise<string[]> {
  const topic = createPostgresTopic(ORDERS, { pool, url, logger: silent })
  const lake = await openLake(config)
  const options = {
    pool,
    topic,
    slotName: orderSlotOf(url),
    streamUrl: addresses.stream,
    lake,
    lakeFlushSeconds: config.lakeFlushSeconds,
    now: () => new Date(),
  }
  try {
    const report = await eventually(
      async () => {
        const found = await verify(options)
        const { versions } = found.orders
        const isDelivered = found.topic.events === versions && found.lake.events === versions && found.mails.queued === 0
        return isDelivered || found.findings.length > 0 ? found : undefined
      },
      { timeoutMs: DELIVERY_MS, pauseMs: 200, what: 'every event everywhere' },
    )
    return [
      ...report.findings.map(({ place, kind, count, examples }) => `verify: ${place} ${kind} ${count}, such as ${examples[0]}`),
      ...report.undecided.map((place) => `verify: ${place} cannot be told`),
    ]
  } finally {
    await lake.close()
  }
}

import { CATALOGUE_DATASET } from '../src/lake/lake-dataset.ts'
import { LakeSink } from '../src/lake/lake-sink.ts'
import type { LakeStore } from '../src/lake/lake-store.ts'
import { CatalogueHistory, toMessages } from './catalogue-event-factory.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { NEVER } from './lake-harness.ts'
import { silent } from './stream-harness.ts'

const DOLLARS = { amount: 1_999, currency: 'USD', compare_at: null }
const YEN = { amount: 300, currency: 'JPY', compare_at: 400 }

/** Writes the histories of two products into a file each: 9 events, 6 states, 8 prices, one event of stock. */
export async function writeCatalogue(t: Cleanup, store: LakeStore): Promise<void> {
  const now = () => new Date('2026-03-01T12:00:00.000Z')
  const sink = new LakeSink({ store, dataset: CATALOGUE_DATASET, flushSeconds: 3_600, flushRows: 1_000, logger: silent, now })
  await sink.start()
  onCleanup(t, () => sink.stop())
  const mug = new CatalogueHistory({ prices: [DOLLARS, YEN] })
    .change('created', '2026-03-01T08:00:00.000Z')
    .reprice('2026-03-01T09:00:00.000Z', 1_899, 2_499, 'USD')
    .stock('2026-03-01T09:30:00.000Z', 0, 3)
    .change('updated', '2026-03-01T10:00:00.000Z', { name: 'Big mug', prices: [DOLLARS] })
    .reprice('2026-03-01T11:00:00.000Z', 1_000, 1_250)
    .change('archived', '2026-03-01T12:00:00.000Z', { archived_at: '2026-03-01T12:00:00.000Z', prices: [DOLLARS, YEN] })
  const cup = new CatalogueHistory({ sku: 'CUP', price: { amount: 7, currency: 'KWD' } }).change('created', '2026-03-01T08:30:00.000Z')
  for (const { events } of [mug, cup]) {
    await sink.handle(toMessages(events, events === mug.events ? 1 : 100), NEVER)
    await sink.flush()
  }
}

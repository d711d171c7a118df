import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import type { Pool } from '../../db/pool.ts'
import { LakeDamaged, readSnapshot } from '../../lake/iceberg/event-table.ts'
import { DATASET_NAMES } from '../../lake/lake-names.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { findUnreconciledReason, listIncarnations } from '../../topic/incarnations.ts'
import type { Topic } from '../../topic/topic.ts'
import { countOf, type OnStep } from '../on-step.ts'
import { describeLoss, knownUpTo } from '../restore/ensure-incarnation.ts'
import { type ComparedStores, findDataLoss, findLakeAhead } from '../restore/find-data-loss.ts'
import type { InFlightOptions } from './await-in-flight.ts'
import { comparePartition, dueBeforeOf, type Lag } from './compare-partition.ts'
import { readTables, type TablesRead } from './compare-tables.ts'
import { cataloguePartition, orderPartition } from './compared-partition.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import { type Finding, findingOf, MAX_EXAMPLES, type Place } from './finding.ts'
import { type IdRange, placedBetween } from './id-range.ts'
import { findInvalidRows } from './invalid-rows.ts'
import { findAlteredProducts, isRecording } from './unrecorded-products.ts'

/** `patienceMs` is also the lag that a subscriber may have. */
export interface VerifyOptions extends InFlightOptions {
  topic: Topic
  lake: LakeStore
  /** The catalogue to compare. If absent, it is not compared. */
  catalogue?: { topic: Topic<CatalogueEvent>; slotName: string }
  /** Compares the orders placed then, with their events and mails, but neither catalogue, tables nor rules of rows. */
  placed?: { from: Date | undefined; to: Date | undefined } | undefined
  /** How long the sink may buffer events. The default is 60 seconds. */
  lakeFlushSeconds?: number
  now: () => Date
}

export interface CatalogueReport {
  events: number
  published: number
  waiting: number
  /** Products that are older than their events, or in a renamed category, and are not recorded yet. */
  toRecord: number
  /** Whether the recording makes progress, and each missing event is known to be lost or in flight. */
  isSettled: boolean
}

export interface CatalogueLakeReport {
  files: number
  events: number
  waiting: number
}

export interface VerifyReport {
  orders: { orders: number; versions: number }
  topic: { events: number; lag: Lag; isSettled: boolean }
  catalogue: CatalogueReport | null
  catalogueLake: CatalogueLakeReport | null
  mails: { sent: number; queued: number; failed: number; lag: Lag }
  /**
   * `lostEvents` is the number of events whose orders are missing since a restore. `refusal` says why this database
   * must not write to the lake; null if it may.
   */
  lake: { files: number; events: number; lostEvents: number; lag: Lag; refusal: string | null }
  tables: { tables: number }
  findings: Finding[]
  /** The places for which it cannot be decided yet whether their missing events are in flight or lost. */
  undecided: Place[]
}

export async function verify(options: VerifyOptions): Promise<VerifyReport> {
  const { pool, topic, lake, placed, onStep = () => {} } = options
  const range = placed && placedBetween(placed)
  const dueBefore = dueBeforeOf(options.now().getTime(), options)
  const restored = await findRestored({ pool, topic, lake: await ifReadable(lake) }, options.catalogue?.topic)
  onStep('reading the tables of the lake')
  const tablesRead: TablesRead = range === undefined ? await readTables(lake) : { count: 0, faults: [], moved: [], written: [] }
  const orders = await comparePartition(orderPartition(topic, range), {
    ...options,
    dueBefore,
    tablesRead,
    lostRanges: restored.ranges,
    async readMails(tables) {
      const position = await findSubscriberPosition(pool, 'email')
      await readMails(pool, tables, range ?? placedBetween({}), onStep)
      return position
    },
  })
  const invalidRows = range === undefined ? await findInvalidRows(pool, MAX_EXAMPLES) : []
  const invalid = invalidRows.map((rows): Finding => ({ ...rows, kind: 'invalid' }))
  const findings = [...restored.findings, ...invalid, ...orders.findings]
  const undecided: Place[] = orders.isSettled ? [] : ['topic']
  if (orders.mailLag.isOverdue) undecided.push('mails')
  if (orders.lakeLag.isOverdue) undecided.push('lake')
  const { catalogue } = options
  const compared =
    catalogue === undefined || range !== undefined
      ? null
      : await compareCatalogue({ ...options, ...catalogue }, dueBefore, tablesRead.written)
  findings.push(...(compared?.findings ?? []))
  undecided.push(...(compared?.undecided ?? []))
  const mailsThatAre = (status: string) => orders.mails.find((row) => row.status === status)?.n ?? 0
  const lagOf = ({ events, seconds }: Lag): Lag => ({ events, seconds })
  const { files, events, lostEvents, lastSequence } = orders.lake
  return {
    orders: { orders: orders.rows, versions: orders.recorded },
    topic: { events: orders.published, lag: orders.inFlight, isSettled: orders.isSettled },
    catalogue: compared?.catalogue ?? null,
    catalogueLake: compared?.catalogueLake ?? null,
    mails: {
      sent: mailsThatAre('sent'),
      queued: mailsThatAre('queued'),
      failed: mailsThatAre('failed'),
      lag: lagOf(orders.mailLag),
    },
    lake: {
      ...{ files, events, lostEvents },
      lag: lagOf(orders.lakeLag),
      refusal: (await findLakeAhead({ pool, topic }, lastSequence))?.message ?? null,
    },
    tables: { tables: tablesRead.count },
    findings,
    undecided,
  }
}

export async function compareCatalogue(
  options: Omit<VerifyOptions, 'topic' | 'catalogue'> & { topic: Topic<CatalogueEvent> },
  dueBefore = dueBeforeOf(options.now().getTime(), options),
  written: TablesRead['written'] = [],
) {
  const { pool, onStep = () => {} } = options
  onStep('comparing the events of the catalogue')
  const report = await comparePartition(cataloguePartition(options.topic), {
    ...options,
    dueBefore,
    // The tables are examined with those of the orders.
    tablesRead: { count: 0, moved: [], faults: [], written },
  })
  const { altered, toRecord } = await findAlteredProducts(pool, onStep)
  const isSettled = report.isSettled && (toRecord === 0 || (await isRecording(pool, options.patienceMs)))
  const undecided: Place[] = isSettled ? [] : ['catalogue']
  if (report.lakeLag.isOverdue) undecided.push('catalogue in the lake')
  return {
    catalogue: { events: report.recorded, published: report.published, waiting: report.inFlight.events, toRecord, isSettled },
    catalogueLake: { files: report.lake.files, events: report.lake.events, waiting: report.lakeLag.events },
    findings: [...report.findings, ...findingOf('products', 'altered', altered)],
    undecided,
  }
}

/** The lake is null while its metadata are damaged, because then it is no evidence of a restore. */
async function ifReadable(lake: LakeStore): Promise<LakeStore | null> {
  try {
    for (const dataset of DATASET_NAMES) await readSnapshot(lake, dataset)
    return lake
  } catch (error) {
    if (!(error instanceof LakeDamaged)) throw error
    return null
  }
}

/** A finding when the database was restored and not reconciled, and its ranges of lost events. */
async function findRestored(
  compared: ComparedStores,
  catalogueTopic: Topic<CatalogueEvent> | undefined,
): Promise<{ findings: Finding[]; ranges: { after: number; up_to: number }[] }> {
  const incarnations = await listIncarnations(compared.pool)
  const ranges = incarnations.flatMap(({ lost }) => (lost === null ? [] : [{ after: lost.after, up_to: lost.upTo }]))
  const lost = await findDataLoss(compared, knownUpTo(incarnations))
  const examples = lost === null ? [] : [describeLoss(lost), ...lost.examples]
  if (catalogueTopic !== undefined) {
    const catalogueLost = await findDataLoss({ ...compared, topic: catalogueTopic }, knownUpTo(incarnations, 'catalogueLost'))
    if (catalogueLost !== null) examples.push(describeLoss(catalogueLost, 'events of the catalogue'), ...catalogueLost.examples)
  }
  const unreconciled = await findUnreconciledReason(compared.pool)
  if (unreconciled !== null) examples.push(unreconciled)
  return { findings: examples.length === 0 ? [] : [{ place: 'database', kind: 'restored', count: 1, examples }], ranges }
}

async function findSubscriberPosition(pool: Pool, name: string): Promise<number> {
  const { rows } = await pool.query<{ sequence: number | null }>('select sequence from topic_subscribers where name = $1', [name])
  return rows[0]?.sequence ?? 0
}

const PAGE_SIZE = 5_000

async function readMails(pool: Pool, tables: ComparisonTables, range: IdRange, onStep: OnStep = () => {}): Promise<void> {
  let mails = 0
  for (let after = range.from; ; ) {
    const { rows } = await pool.query<{ event_id: string; status: string; queued_at: number }>(
      `select event_id, status, (extract(epoch from queued_at) * 1000)::bigint as queued_at
      from email_deliveries
      where event_id > $1 and event_id < $2
        -- A mail that was sent again, see mail/copy-id.ts, and a notice, which is inserted with its event's mail.
        and event_id not like '%.copy_' and event_type <> 'storefront.order.readdressed'
      order by event_id
      limit $3`,
      [after, range.below, PAGE_SIZE],
    )
    const last = rows.at(-1)
    if (last === undefined) return
    await tables.add('mail_events', rows)
    mails += rows.length
    onStep(`read ${countOf(mails)} mails`)
    after = last.event_id
  }
}
